"""Saves a small model with torch.export, in each layout that torch.export.save has had.

    python test/models/export_program.py OUT.pt2 [--layout 2.7|2.8|2.13]

It is the classifier of export_mlp.py with its batch open (`x` float32 [batch, 16]), a batch norm in training mode, a
dropout and a constant. torch 2.13 writes the newest layout itself; the others are put together from the parts that it
still serialises, as torch.export.load reads them. Paths of the exporting machine are taken out.
"""

import argparse
import io
import json
import re
import zipfile

import torch
from torch._export.serde.serialize import serialize


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(16, 32)
        self.norm = torch.nn.BatchNorm1d(32)
        self.drop = torch.nn.Dropout(0.1)
        self.fc2 = torch.nn.Linear(32, 10)
        self.shift = torch.linspace(-1, 1, 16)

    def forward(self, x):
        x = self.fc1(x + self.shift)
        return {"logits": self.fc2(self.drop(self.norm(x).relu()))}


def withoutPaths(text):
    """Keeps the names of files in stack traces."""
    return re.sub(rb'File \\"(?:[^"]*site-packages/|[^"]*/(?=[^"/]*\\"))', rb'File \\"', text)


def program():
    torch.manual_seed(0)
    return torch.export.export(Classifier().train(), (torch.zeros(8, 16),),
                               dynamic_shapes={"x": {0: torch.export.Dim("batch")}})


def newest(program):
    """What torch.export.save of this version writes."""
    saved = io.BytesIO()
    torch.export.save(program, saved)
    members = {}
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            members["mlp/" + name.split("/", 1)[1]] = archive.read(name)
    members["mlp/models/model.json"] = withoutPaths(members["mlp/models/model.json"])
    del members["mlp/data/sample_inputs/model.pt"]
    return members


def parts(program):
    artifact = serialize(program)
    return withoutPaths(artifact.exported_program), artifact.state_dict, artifact.constants


def members(layout):
    made = program()
    if layout == "2.13":
        return newest(made)
    graph, weights, constants = parts(made)
    if layout == "2.8":
        return {"mlp/archive_format": b"pt2", "mlp/archive_version": b"0", "mlp/byteorder": b"little",
                "mlp/models/model.json": graph, "mlp/data/weights/model.pt": weights,
                "mlp/data/constants/model.pt": constants}
    return {"version": b"8.8", "serialized_exported_program.json": graph, "serialized_state_dict.pt": weights,
            "serialized_constants.pt": constants, "serialized_example_inputs.pt": b""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--layout", choices=("2.7", "2.8", "2.13"), default="2.13")
    args = parser.parse_args()
    with zipfile.ZipFile(args.path, "w") as archive:
        for name, content in members(args.layout).items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)


if __name__ == "__main__":
    main()
