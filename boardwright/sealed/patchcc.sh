# sh patchcc.sh COMPILER ARGUMENT...: the compiler behind ccache; what it says about an object is also kept
# in $SAID/<object>, where make and ninja would mix it with what it says about others.
compiler=$1
shift
case " $* " in
*" /dev/null "*) exec "$compiler" "$@" ;;
*" -c "*) ;;
*) exec "$compiler" "$@" ;;
esac
for word; do
    [ "$before" != -o ] || object=$word
    before=$word
done
said=$SAID/$(echo "$object" | sed -e 's/\.tmp_//' -e 's|/|%|g')
ccache "$compiler" "$@" 2>"$said"
status=$?
cat "$said" >&2
exit $status
