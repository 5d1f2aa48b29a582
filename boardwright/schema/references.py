"""What files say about each other: names that lead nowhere, or to the wrong kind of thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from boardwright.errors import InputError, InputErrors, Place
from boardwright.patches.lines import lines
from boardwright.patches.series import read
from boardwright.schema import recipe as recipes
from boardwright.schema.board import Board, Vendor
from boardwright.schema.lock import has_lock, request_digest
from boardwright.schema.project import LOCAL, Project, board_file, lock_file, recipe_file
from boardwright.schema.recipe import RecipeBase
from boardwright.schema.suggest import nearest
from boardwright.schema.yamltree import Document
from boardwright.schema.yamltree import Path as KeyPath

Kinds = tuple[type[RecipeBase], ...]

KERNELS: Kinds = (recipes.KernelRecipe, recipes.DebianKernelRecipe)
ALWAYS: dict[str, Kinds] = {
    "image": (recipes.ImageRecipe,),
    "overlays": (recipes.OverlaysRecipe,),
    "tools-qemu": (recipes.EnvironmentRecipe,),
}
"""Recipes that every board uses without naming them (``boardwright/kinds/board.py``)."""


def recipes_of(board: Board) -> list[tuple[str, KeyPath, Kinds]]:
    """The recipes a board uses: name, where its file names them, and of which kind they must be."""
    found: list[tuple[str, KeyPath, Kinds]] = [
        (board.kernel.recipe, ("kernel", "recipe"), KERNELS),
        (board.rootfs.recipe, ("rootfs", "recipe"), (recipes.RootfsRecipe,)),
    ]
    if board.boot.loader:
        found.append((board.boot.loader, ("boot", "loader"), (recipes.LoaderRecipe,)))
    for name, variant in board.variants.items():
        if variant.kernel:
            found.append((variant.kernel, ("variants", name, "kernel"), KERNELS))
        if variant.rootfs:
            found.append((variant.rootfs, ("variants", name, "rootfs"), (recipes.RootfsRecipe,)))
    return [*found, *((name, (), kinds) for name, kinds in ALWAYS.items())]


def with_environments(project: Project, names: set[str]) -> set[str]:
    """These recipes, those whose packages they install, and those they all run in."""
    found = {name for name in names if name in project.recipes()}
    for name in sorted(found):
        found |= set(getattr(_loaded(project, name), "built", ()))
    for name in sorted(found & set(project.recipes())):
        try:
            found.add(environment(project.recipe(name)) or name)
        except InputError:
            continue
    return found & set(project.recipes())


def environment(recipe: RecipeBase) -> str | None:
    return getattr(recipe, "environment", None)


def board_faults(project: Project, board: Board) -> Iterator[InputError]:
    """What a board file names and is not there, or is of another kind."""
    document = project.document(board_file(board.board))
    for name, path, kinds in recipes_of(board):
        yield from _recipe_faults(project, name, kinds, document.place(path))
    yield from _kernel_faults(project, board, document)
    for index, name in enumerate(board.rootfs.overlays):
        path = ("rootfs", "overlays", index)
        yield from _missing(
            project, Path("overlays/rootfs"), name, document, path, "root file system overlay"
        )
    trees = Path("overlays/device-tree") / board.board
    named: list[tuple[KeyPath, list[str]]] = [(("boot", "overlays"), board.boot.overlays)]
    named += [(("variants", name, "overlays"), variant.overlays) for name, variant in board.variants.items()]
    for where, names in named:
        for index, name in enumerate(names):
            yield from _missing(
                project, trees, name, document, (*where, index), "device-tree overlay", ".dtso"
            )
    if board.disk.table == "gpt":  # with blkdevparts the loader has the command line in its environment
        yield from _missing(
            project, Path("boards") / board.board, board.boot.script, document, ("boot", "script"), "template"
        )


def _kernel_faults(project: Project, board: Board, document: Document) -> Iterator[InputError]:
    kernel = board.kernel
    yield from fragment_faults(project, document, kernel.config, ("kernel", "config"))
    yield from patch_faults(project, document, kernel.patches, ("kernel", "patches"))
    if not isinstance(_loaded(project, kernel.recipe), recipes.DebianKernelRecipe):
        return
    for key in ("config", "patches"):
        if getattr(kernel, key):
            yield InputError(
                f"expected no {key}: {kernel.recipe} is Debian's own kernel package, nothing is compiled",
                place=document.place(("kernel", key)),
                hint="leave the key out, or name a recipe of kind kernel",
            )


def recipe_faults(project: Project, name: str) -> Iterator[InputError]:
    """What a recipe names and is not there; its lock, when it is stale or was never made."""
    recipe, document = project.recipe(name), project.document(recipe_file(name))
    if where := environment(recipe):
        yield from _environment_faults(project, name, where, document.place(("environment",)))
    if isinstance(recipe, recipes.KernelRecipe):
        yield from fragment_faults(project, document, recipe.config, ("config",))
        yield from patch_faults(project, document, recipe.patches, ("patches",))
    if isinstance(recipe, recipes.MesonRecipe):
        topics = f"patches/{recipe.source.debian}"
        yield from patch_faults(project, document, recipe.patches, ("patches",), Path(topics))
        yield from _duplicates(document, recipe.libraries, ("libraries",), "package")
    if isinstance(recipe, recipes.ProjectRecipe):
        for index, part in enumerate(recipe.parts):
            yield from _missing(project, Path(), part, document, ("parts", index), "file or directory")
        yield from _duplicates(document, recipe.libraries, ("libraries",), "package")
    if isinstance(recipe, recipes.NativeRecipe):
        yield from _native_faults(project, recipe, document)
    if isinstance(recipe, recipes.RootfsRecipe):
        yield from _built_faults(project, recipe, document)
    packages = [package.split("=")[0] for package in getattr(recipe, "packages", [])]
    yield from _duplicates(document, packages, ("packages",), "package")
    yield from _lock_faults(project, recipe, document)


def _native_faults(
    project: Project, recipe: recipes.NativeRecipe, document: Document
) -> Iterator[InputError]:
    lists = {
        "shared-libraries": recipe.shared_libraries,
        "programs": recipe.programs,
        "patches": recipe.patches,
    }
    for key, paths in lists.items():
        for index, path in enumerate(map(Path, paths)):
            yield from _missing(project, path.parent, path.name, document, (key, index), "file or directory")


def _environment_faults(project: Project, name: str, where: str, place: Place) -> Iterator[InputError]:
    chain = [name]
    following: str | None = where
    while following is not None and following not in chain:
        chain.append(following)
        loaded = _loaded(project, following)
        following = environment(loaded) if loaded else None
    if following is None:
        yield from _recipe_faults(project, where, (recipes.EnvironmentRecipe,), place)
        return
    ring = chain[chain.index(following) :]
    if name == min(ring):  # each ring once, not once for each of its recipes
        arrows = " → ".join([*ring[ring.index(name) :], *ring[: ring.index(name)], name])
        yield InputError(
            f"recipe cycle: {arrows}", place=place, hint="an environment is a recipe of kind environment"
        )
    elif name not in ring:
        yield from _recipe_faults(project, where, (recipes.EnvironmentRecipe,), place)


def _recipe_faults(project: Project, name: str, kinds: Kinds, place: Place) -> Iterator[InputError]:
    wanted = " or ".join(str(kind.__struct_config__.tag) for kind in kinds)
    fitting = [other for other in project.recipes() if isinstance(_loaded(project, other), kinds)]
    hint = nearest(name, fitting) or (f"of that kind: {', '.join(fitting)}" if fitting else None)
    if name not in project.recipes():
        why = ", which every board needs" if name in ALWAYS else ""
        yield InputError(f"there is no recipe {name!r} (of kind {wanted}){why}", place=place, hint=hint)
        return
    recipe = _loaded(project, name)
    if recipe is not None and not isinstance(recipe, kinds):
        found = recipe.__struct_config__.tag
        yield InputError(
            f"expected a recipe of kind {wanted}, found {name!r} of kind {found}", place=place, hint=hint
        )


def _loaded(project: Project, name: str) -> RecipeBase | None:
    """A recipe; None when it is missing or wrong, which is reported elsewhere."""
    try:
        return project.recipe(name)
    except InputError:
        return None


def fragment_faults(
    project: Project, document: Document, names: Sequence[str], path: KeyPath
) -> Iterator[InputError]:
    yield from _duplicates(document, names, path, "fragment")
    for index, name in enumerate(names):
        yield from _missing(project, Path("recipes/linux"), name, document, (*path, index), "config fragment")


def _built_faults(project: Project, recipe: recipes.RootfsRecipe, document: Document) -> Iterator[InputError]:
    for index, name in enumerate(recipe.built):
        place = document.place(("built", index))
        yield from _recipe_faults(project, name, (recipes.MesonRecipe, recipes.ProjectRecipe), place)
        made = _loaded(project, name)
        if isinstance(made, recipes.MesonRecipe) and made.deb is None:
            yield InputError(f"recipe {name} makes no package: it has no `deb`", place=place)


def patch_faults(
    project: Project,
    document: Document,
    topics: Sequence[str],
    path: KeyPath,
    parent: Path = Path("patches/kernel"),
) -> Iterator[InputError]:
    """Topics without a directory or series, and series that name patches which are not there."""
    yield from _duplicates(document, topics, path, "patch topic")
    for index, topic in enumerate(topics):
        missing = list(_missing(project, parent, topic, document, (*path, index), "patch topic"))
        yield from missing
        series = parent / topic / "series"
        if missing:
            continue
        if not (project.root / series).is_file():
            yield InputError(
                f"patch topic {topic!r} has no file {series}", place=document.place((*path, index))
            )
            continue
        try:
            read(project.root, parent.name, topic, lines(project, parent.name))
        except InputErrors as error:
            yield from error.errors
        except InputError as error:
            yield error


def _missing(
    project: Project,
    parent: Path,
    name: str,
    document: Document,
    path: KeyPath,
    what: str,
    suffix: str = "",
) -> Iterator[InputError]:
    """An error when ``parent/name`` is not in the project."""
    if (project.root / parent / f"{name}{suffix}").exists():
        return
    there = sorted(file.name.removesuffix(suffix) for file in (project.root / parent).glob(f"*{suffix}"))
    yield InputError(
        f"there is no {what} {parent / name}{suffix}",
        place=document.place(path),
        hint=nearest(name, there) or (f"there are: {', '.join(there[:8])}" if there else None),
    )


def _duplicates(document: Document, names: Sequence[str], path: KeyPath, what: str) -> Iterator[InputError]:
    for name in (name for name, count in Counter(names).items() if count > 1):
        first, *others = (index for index, other in enumerate(names) if other == name)
        line = document.place((*path, first)).line
        for index in others:
            yield InputError(
                f"{what} {name!r} stands in line {line} already",
                place=document.place((*path, index)),
                hint="remove one of them",
            )


def vendor_faults(
    project: Project, document: Document, files: dict[str, Vendor], supplied: set[str]
) -> Iterator[InputError]:
    """Vendor files without a place to take them from, with two, or with one where nothing is."""
    for name, file in files.items():
        path = ("vendor", name)
        if file.path and file.url:
            yield InputError(
                f"expected a path or a url for {name!r}, found both", place=document.place((*path, "url"))
            )
        elif file.path and not (project.root / file.path).is_file():
            yield InputError(f"there is no file {file.path}", place=document.place((*path, "path")))
        elif not file.path and not file.url and name not in supplied:
            yield InputError(
                f"expected a path or a url for {name!r}, found neither",
                place=document.place(path, key=True),
                hint=f"say in {LOCAL} where your copy is: vendor: {{{name}: {{sha256: …, path: …}}}}",
            )


def _lock_faults(project: Project, recipe: RecipeBase, document: Document) -> Iterator[InputError]:
    name = recipe.recipe
    if not has_lock(recipe):
        return
    hint = f"run `invoke lock --recipe {name}`"
    lock = project.lock(name)
    if lock is None:
        yield InputError(f"recipe {name} has no lock", place=document.place(), hint=hint)
    elif lock.request != request_digest(recipe):
        yield InputError(
            f"the lock was made for another request: {recipe_file(name)} asks for other packages now",
            place=project.document(lock_file(name)).place(("request",)),
            hint=hint,
        )
