"""The container file and the manifests of `deploy/`: no cluster is needed to find a wrong field, name or version."""

import json
import os
import re
import shlex
import subprocess
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SCHEMA = json.loads((Path(__file__).parent / "data" / "kubernetes-1.37.schema.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = {"v1": "core.v1", "rbac.authorization.k8s.io/v1": "rbac.v1"}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def trouble(document: dict[str, Any]) -> list[str]:
    """What the schema of Kubernetes finds wrong; it allows no unknown fields."""
    kind = f"io.k8s.api.{GROUPS[document['apiVersion']]}.{document['kind']}"
    found = jsonschema.Draft202012Validator(SCHEMA | {"$ref": f"#/$defs/{kind}"}).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


MANIFESTS = {one["kind"]: one for one in documents("kubernetes.yaml")}
(POD,) = documents("pod.yaml")
CONF = dict(
    line.split(maxsplit=1)
    for line in (DEPLOY / "kubernetes.conf").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


@pytest.mark.parametrize("document", [*MANIFESTS.values(), POD], ids=lambda one: one["kind"])
def test_manifests_follow_the_schema_of_kubernetes(document: dict[str, Any]) -> None:
    assert trouble(document) == []


def test_the_schema_finds_a_misspelt_a_missing_and_a_wrong_field() -> None:
    spec = POD["spec"]
    assert trouble(POD | {"spec": spec | {"volume": []}})
    assert trouble(POD | {"spec": spec | {"containers": [{"image": "x"}]}})
    assert trouble(MANIFESTS["Role"] | {"rules": [{"verbs": "get"}]})


def test_names_agree_between_the_manifests_the_template_and_the_settings() -> None:
    namespace = MANIFESTS["Namespace"]["metadata"]["name"]
    assert {one["metadata"].get("namespace", namespace) for one in MANIFESTS.values()} == {namespace}
    assert CONF["spark.kubernetes.namespace"] == namespace
    account, role, binding = (MANIFESTS[kind] for kind in ("ServiceAccount", "Role", "RoleBinding"))
    (subject,) = binding["subjects"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], namespace)
    assert CONF["spark.kubernetes.authenticate.driver.serviceAccountName"] == account["metadata"]["name"]
    ((volume,), (container,)) = POD["spec"]["volumes"], POD["spec"]["containers"]
    claim = MANIFESTS["PersistentVolumeClaim"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert [one["name"] for one in container["volumeMounts"]] == [volume["name"]]


def test_the_settings_name_files_and_an_image_that_exist() -> None:
    assert (ROOT / CONF["spark.kubernetes.driver.podTemplateFile"]).samefile(DEPLOY / "pod.yaml")
    assert (ROOT / CONF["spark.kubernetes.executor.podTemplateFile"]).samefile(DEPLOY / "pod.yaml")
    image = f"penstock:{PROJECT['project']['version']}"
    assert CONF["spark.kubernetes.container.image"] == image
    assert f"--tag {image} ." in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each with its arguments in one line."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines)]


def arguments(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def copied() -> dict[str, str]:
    """What is copied into the image, and where to."""
    found = [shlex.split(line) for line in arguments("COPY")]
    return {source: target for *sources, target in found for source in sources}


def test_the_container_file_copies_what_exists_and_is_not_ignored() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert set(copied()) == sent
    assert [source for source in sent if not (ROOT / source).exists()] == []


def test_what_is_copied_is_enough_to_install_the_package() -> None:
    own = PROJECT["project"]
    needed = ["pyproject.toml", own["readme"], *own["license-files"]]
    needed += PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    places = {source for source, target in copied().items() if target.startswith("/build")}
    assert [one for one in needed if not any(fnmatch(one, f"{place}*") for place in places)] == []
    (extras,) = [re.findall(r"/build\[([\w,]+)\]", line) for line in arguments("RUN") if "pip install" in line]
    assert set(extras[0].split(",")) <= set(own["optional-dependencies"])


def test_versions_of_the_container_file_agree_with_the_project() -> None:
    (base,) = arguments("FROM")
    python = re.fullmatch(r"python:(\d\.\d+)-slim-\w+", base)
    assert python
    assert SpecifierSet(PROJECT["project"]["requires-python"]).contains(python[1])
    (environment,) = arguments("ENV")
    assert f"/python{python[1]}/" in environment
    name, _, spark = arguments("ARG")[0].partition("=")
    wanted = [*PROJECT["project"]["optional-dependencies"]["spark"], *PROJECT["dependency-groups"]["dev"]]
    ranges = [one.specifier for one in map(Requirement, wanted) if one.name == "pyspark"]
    assert (name, len(ranges)) == ("SPARK", 2)
    assert all(one.contains(spark) for one in ranges), "the image has another Spark than the tests"


def test_the_image_runs_as_the_user_of_the_template_who_is_not_root() -> None:
    (user,) = arguments("USER")
    assert int(user) == POD["spec"]["securityContext"]["runAsUser"] > 0
    assert any(f"--uid {user} " in line for line in arguments("RUN"))


SPARK_SETS = {
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7",
    "SPARK_JAVA_OPT_0": "-Done=1 2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "guarded-exec-3",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}


def started(tmp_path: Path, *words: str) -> list[str]:
    """The command that the entry point runs, as its words."""
    tini = tmp_path / "tini"
    tini.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    tini.chmod(0o755)
    given = SPARK_SETS | {"SPARK_HOME": "/spark", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [DEPLOY / "entrypoint.sh", *words]
    result = subprocess.run(command, env=given, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert result.stdout.startswith("-s\n--\n")
    return result.stdout.splitlines()[2:]


def test_the_entry_point_starts_a_driver_with_the_arguments_of_spark(tmp_path: Path) -> None:
    submit, *rest = started(tmp_path, "driver", "--class", "X", "local:///a b.py")
    assert submit == "/spark/bin/spark-submit"
    assert "spark.driver.bindAddress=10.0.0.7" in rest
    assert rest[-5:] == ["--deploy-mode", "client", "--class", "X", "local:///a b.py"]


def test_the_entry_point_starts_an_executor_with_what_spark_sets(tmp_path: Path) -> None:
    words = started(tmp_path, "executor")
    assert words[:4] == ["java", "-Done=1 2", "-Xms2g", "-Xmx2g"]
    assert words[5] == f"/opt/spark/conf:/spark/jars/*:{tmp_path}"
    assert dict(zip(words[7::2], words[8::2], strict=True)) == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "guarded-exec-3",
    }


def test_the_entry_point_runs_other_commands_as_they_are(tmp_path: Path) -> None:
    assert started(tmp_path, "penstock", "--version") == ["penstock", "--version"]


def test_the_entry_point_uses_names_that_this_spark_knows() -> None:
    found = find_spec("pyspark")
    assert found is not None
    (folder,) = found.submodule_search_locations or ()
    text = (DEPLOY / "entrypoint.sh").read_text(encoding="utf-8")
    ours = set(re.findall(r"\bSPARK_[A-Z_]+", text)) - {"SPARK_HOME"}
    (jar,) = Path(folder, "jars").glob("spark-kubernetes_*.jar")
    (backend,) = re.findall(r"org\.apache\.spark\S+Backend", text)
    with zipfile.ZipFile(jar) as inside:
        names = inside.read("org/apache/spark/deploy/k8s/Constants$.class").decode("latin-1")
        inside.getinfo(f"{backend.replace('.', '/')}.class")
    assert {one for one in ours if one not in names} == set()
    assert len(ours) > 10
