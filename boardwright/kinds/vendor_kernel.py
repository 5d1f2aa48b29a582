"""The vendor's kernel, compiled from the vendor's SDK on the user's disk (boardwright/vendor/sdk.py)."""

from __future__ import annotations

from boardwright.build import digest
from boardwright.build.step import Input, LocalFile, Step
from boardwright.kinds.context import Context, script
from boardwright.vendor import sdk

STEP = "vendor-kernel"
ENVIRONMENT = "tools-cross"
OUTPUTS = ("Image", "dtb", "config", "release")


def step(context: Context, found: sdk.Sdk) -> Step:
    inputs: dict[str, Input] = {"source": LocalFile(str(found.source), digest.of_tree(found.source))}
    for patch in found.patches:
        inputs[f"patches/{patch.name}"] = LocalFile(str(patch), digest.of_tree(patch))
    return Step(
        name=STEP,
        title=f"{found.source.name} of the vendor's SDK, {len(found.patches)} patches",
        script=script("vendor_kernel"),
        environment=ENVIRONMENT,
        outputs=OUTPUTS,
        inputs=inputs,
        variables={"DEFCONFIG": sdk.DEFCONFIG, "DTB": sdk.DEVICE_TREE},
        epoch=context.lock(ENVIRONMENT).epoch,
    )
