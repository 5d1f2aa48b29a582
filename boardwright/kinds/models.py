"""Kind ``models``: the files of language models that ``local.yaml`` asks for, inputs of what holds them."""

from __future__ import annotations

from boardwright.build.step import Download
from boardwright.errors import InputError, Place
from boardwright.image.names import has_no_table
from boardwright.kinds.context import Context
from boardwright.layout import partitions
from boardwright.schema.board import OwnModel
from boardwright.schema.recipe import Model, ModelsRecipe
from boardwright.schema.suggest import nearest

RECIPE = "models"
_LOCAL = Place("local.yaml")


def wanted(context: Context) -> dict[str, Download]:
    """By absolute path on the board: fetched or the user's own, each held to its SHA-256.

    Raises ``InputError`` for a name that nobody knows, and for a file whose SHA-256 nobody has told.
    """
    if not context.local.models:
        return {}
    recipe = context.project.recipe(RECIPE)
    if not isinstance(recipe, ModelsRecipe):
        raise InputError("expected a recipe of kind models", place=Place(f"recipes/{RECIPE}.yaml"))
    return {
        f"{recipe.directory}/{name}": _download(context, recipe, name, own)
        for name, own in sorted(context.local.models.items())
    }


def inputs(context: Context) -> dict[str, Download]:
    """``models/<path on the board>`` of those in the root; what lies under another mount would be hidden."""
    return {
        f"models{path}": download for path, download in wanted(context).items() if _in_root(context, path)
    }


def _in_root(context: Context, path: str) -> bool:
    if not has_no_table(context.board):
        return True
    table = partitions.resolve(context.board.disk, context.board.partitions)
    return table.mounted_over(path).contents == "rootfs"


def _download(context: Context, recipe: ModelsRecipe, name: str, own: OwnModel) -> Download:
    known: Model | None = recipe.models.get(name)
    if own.path is None and known is None:
        hint = nearest(name, list(recipe.models)) or "give its path and sha256"
        raise InputError(f"no model {name!r} in recipes/{RECIPE}.yaml", place=_LOCAL, hint=hint)
    sha256 = own.sha256 or (known.sha256 if known else None)
    if sha256 is None:
        raise InputError(
            f"the SHA-256 of {name} is not known here", place=_LOCAL, hint="add it: sha256sum tells it"
        )
    size = known.size if known and not own.sha256 else 0
    where = str((context.root / own.path).absolute()) if own.path else known.url if known else ""
    return Download(where, size, sha256)
