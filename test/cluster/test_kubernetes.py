"""The manifests of deploy/kubernetes are valid, and two pods that are made after them train."""


import re
import subprocess
import sys
from pathlib import Path

import pytest
import tools
import yaml

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_manifests_are_valid(file):
    done = subprocess.run([Path(sys.executable).parent / "kubernetes-validate", "--strict", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def load(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def test_manifests_fit_each_other():
    job, service, secret, policy = map(load, ("job", "service", "secret", "network-policy"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    labels = {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert service["spec"]["clusterIP"] == "None" and pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(container["args"][container["args"].index("--machines") + 1])
    host, port = container["args"][container["args"].index("--rendezvous") + 1].split(":")
    assert host == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    ports = [container["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"]]
    assert ports == [int(port)] * 2
    # Ranks of two pods meet at free ports.
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": labels}}]}]
    reference = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert reference["name"] == secret["metadata"]["name"] and reference["key"] in secret["stringData"]
    claim = pod["volumes"][0]["name"]
    assert [mount["name"] for mount in container["volumeMounts"]] == [claim]


def podsOf(job, key, data):
    """The command and the environment of each pod, as Kubernetes makes them."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    for index in range(job["spec"]["completions"]):
        env = {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{job['metadata']['name']}-{index}"}
        env |= {entry["name"]: key for entry in container["env"] if "secretKeyRef" in entry["valueFrom"]}
        words = [re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], word) for word in [*container["command"], *container["args"]]]
        yield [word.replace("/data/", f"{data}/") for word in words], env


def test_two_pods_train(make, shared):
    job = load("job")
    data = shared / "volume"
    data.mkdir()
    (data / "model.plan").symlink_to(shared / "2.plan")
    cluster = make()
    # The name that the Service gives to the first pod.
    for machine in cluster:
        hosts = cluster.folder / "machines" / machine.name / "hosts"
        hosts.write_text(hosts.read_text() + f"{cluster[0].four} train-0.train\n")
    key = (shared / "job.key").read_text()
    nodes = []
    for machine, (words, env) in zip(cluster, podsOf(job, key, data)):
        words[words.index("--steps") + 1] = "3"
        words[words.index("--data") + 1] = shared / "data.npz"  # this model takes no text
        words[0] = tools.bin().resolve() / "polyrank-run"
        nodes.append(machine.start(*words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    errors = [node.communicate(timeout=60)[1].decode() for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], errors
    alone = shared / "alone-pod.safetensors"
    tools.tool("run", shared / "2.plan", "--data", shared / "data.npz", "--steps", 3, "--save", alone)
    assert (data / "trained.safetensors").read_bytes() == alone.read_bytes()
    assert [path.name for path in (data / "checkpoints").iterdir()] == ["step-000000003"]
