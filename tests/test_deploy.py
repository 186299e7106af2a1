"""The recipes of deploy/: their form, and that they fit each other and the code. Nothing is started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

import skyband as sb
from skyband.cli.main import app
from skyband.cli.prometheus import METRICS as TABLE
from skyband.spark import sessions
from skyband.workload_file import Sink

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
METRICS = {f"skyband_{name}" for name, *_ in TABLE}
COUNTERS = {f"skyband_{name}" for name, kind, *_ in TABLE if kind == "counter"}
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
YAML = [path for path in FILES if path.suffix in (".yaml", ".yml")]
HOSTS = re.compile(r"pypi\.org|pythonhosted|npmjs|docker\.io|ghcr\.io|quay\.io|gcr\.io|maven\.org|repo1\.|registry\.")


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def manifests():
    folder = DEPLOY / "kubernetes"
    found = [read(path.relative_to(DEPLOY)) for path in sorted(folder.glob("*.yaml"))]
    return {one["kind"]: one for one in found}


def pod():
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def container():
    (found,) = pod()["containers"]
    return found


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_sound(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize(
    "path", [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()], ids=lambda path: path.name
)
def test_no_registry_is_named(path):
    assert HOSTS.search(path.read_text(encoding="utf-8")) is None


def unknown_options(command):
    """The options that a recipe gives to a command and the command line does not have."""
    known = CliRunner().invoke(app, [command[0], "--help"]).output
    return [word for word in command if word.startswith("--") and word not in known]


class TestWorkloadFile:
    @pytest.mark.skipif("postgres" not in Sink.kinds, reason="no such sink yet")
    def test_it_is_read(self):
        environment = {"KAFKA_SERVERS": "kafka:9092", "DATABASE_URL": "postgresql://skyband@postgres/skyband"}
        file = sb.read_workload(DEPLOY / "skyband.yaml", environment)
        assert file.needs_kafka
        assert [sink.type for sink in file.sinks] == ["postgres"]

    def test_kubernetes_has_the_same(self):
        assert manifests()["ConfigMap"]["data"]["skyband.yaml"] == (DEPLOY / "skyband.yaml").read_text(encoding="utf-8")

    def test_its_variables_are_set_by_every_recipe(self):
        named = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "skyband.yaml").read_text(encoding="utf-8")))
        assert named <= read("docker-compose.yaml")["services"]["skyband"]["environment"].keys()
        assert named <= {one["name"] for one in container()["env"]}

    def test_state_is_on_a_volume(self):
        kept = read("skyband.yaml")["engine"]["checkpoint"]
        folder = kept.rpartition("/")[0]
        assert {"name": "state", "mountPath": folder} in container()["volumeMounts"]
        assert f"state:{folder}" in read("docker-compose.yaml")["services"]["skyband"]["volumes"]


class TestDockerfile:
    @pytest.fixture
    def steps(self):
        text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
        lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
        return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]

    def test_it_begins_with_an_image_and_has_only_steps_there_are(self, steps):
        known = {"FROM", "RUN", "WORKDIR", "COPY", "ARG", "ENV", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
        assert steps[0][0] == "FROM"
        assert {step for step, _ in steps} <= known

    def test_what_it_copies_is_there_and_is_not_ignored(self, steps):
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
        copied = [name for step, rest in steps if step == "COPY" for name in shlex.split(rest)[:-1]]
        assert copied
        for name in copied:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name

    def test_what_it_copies_is_enough_to_build_the_package(self, steps, tmp_path):
        for step, rest in steps:
            if step == "COPY":
                *names, target = shlex.split(rest)
                for name in names:
                    place = tmp_path / "context" / target / (name if (ROOT / name).is_file() else "")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    copy = shutil.copy if (ROOT / name).is_file() else shutil.copytree
                    copy(ROOT / name, place)
        command = [Path(sys.executable).parent / "uv", "build", "--wheel", "--out-dir", tmp_path / "dist"]
        pinned = ["--build-constraints", tmp_path / "context" / "constraints.txt", tmp_path / "context"]
        done = subprocess.run([*command, *pinned], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(list((tmp_path / "dist").glob("*.whl"))) == 1

    def test_it_does_not_run_as_root(self, steps):
        last = [rest for step, rest in steps if step == "USER"][-1]
        assert last == "skyband"
        made = next(rest for _, rest in steps if "useradd" in rest)
        assert f"--uid {pod()['securityContext']['runAsUser']} {last}" in made

    def test_what_it_starts_exists(self, steps):
        told = {step: json.loads(rest) for step, rest in steps if step in ("ENTRYPOINT", "CMD")}
        assert told["ENTRYPOINT"] == ["tini", "--", "skyband"]
        assert unknown_options(told["CMD"]) == []
        assert told["CMD"] == container()["args"]


class TestCompose:
    def test_services_fit_together(self):
        found = read("docker-compose.yaml")
        services = found["services"]
        assert {"kafka", "postgres", "skyband", "prometheus", "grafana"} <= services.keys()
        for name, service in services.items():
            assert set(service.get("depends_on", {})) <= services.keys(), name
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                there = (DEPLOY / source).is_file() if source.startswith(".") else source in found["volumes"]
                assert there, (name, volume)
            for needed, how in service.get("depends_on", {}).items():
                assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]
        build = services["skyband"]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()

    def test_images_have_a_version_and_no_host(self):
        for service in read("docker-compose.yaml")["services"].values():
            name, _, tag = service["image"].partition(":")
            assert tag not in ("", "latest")
            assert "." not in name.split("/")[0]

    def test_no_secret_is_written_out_and_ports_are_on_loopback(self):
        for service in read("docker-compose.yaml")["services"].values():
            for name, value in service.get("environment", {}).items():
                assert "PASSWORD" not in name or value.startswith("${"), name
            assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


class TestKubernetes:
    def test_every_manifest_is_listed_and_named(self):
        listed = manifests()["Kustomization"]["resources"]
        there = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
        assert set(listed) == there
        for kind, one in manifests().items():
            assert kind == "Kustomization" or one["metadata"]["name"]
            assert re.fullmatch(r"[a-z0-9./]*v\d\w*", one["apiVersion"])

    @pytest.mark.parametrize("version", ["1.29", "1.37"])
    def test_every_manifest_meets_the_schema(self, version):
        for kind, one in manifests().items():
            if kind != "Kustomization":  # read by kubectl, not by the server
                kubernetes_validate.validate(one, version, strict=True)

    def test_one_run_at_a_time(self):
        spec = manifests()["Deployment"]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        assert manifests()["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOnce"]

    def test_labels_volumes_and_ports_fit(self):
        found = manifests()
        labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
        for selector in (
            found["Deployment"]["spec"]["selector"]["matchLabels"],
            found["Service"]["spec"]["selector"],
            found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        ):
            assert selector.items() <= labels.items()
        volumes = {one["name"]: one for one in pod()["volumes"]}
        assert {one["name"] for one in container()["volumeMounts"]} == volumes.keys()
        claim = volumes["state"]["persistentVolumeClaim"]["claimName"]
        assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
        assert volumes["file"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
        (port,) = container()["ports"]
        assert container()["args"][container()["args"].index("--metrics") + 1].endswith(f":{port['containerPort']}")
        assert found["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
        for probe in ("startupProbe", "livenessProbe"):
            assert container()[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}

    def test_it_may_do_little(self):
        assert pod()["securityContext"]["runAsNonRoot"]
        assert pod()["automountServiceAccountToken"] is False
        mine = container()["securityContext"]
        assert mine["readOnlyRootFilesystem"]
        assert not mine["allowPrivilegeEscalation"]
        assert mine["capabilities"] == {"drop": ["ALL"]}

    def test_kernels_are_kept_where_it_can_write(self):
        env = {one["name"]: one.get("value") for one in container()["env"]}
        assert env["NUMBA_CACHE_DIR"].startswith("/tmp/")
        assert "/tmp" in {one["mountPath"] for one in container()["volumeMounts"]}

    def test_secrets_are_named_only(self):
        assert "Secret" not in manifests()
        for one in container()["env"]:
            assert "PASSWORD" not in one["name"] or "secretKeyRef" in one["valueFrom"]

    def test_the_image_is_of_this_version(self):
        image = f"skyband:{sb.__version__}"
        assert container()["image"] == read("docker-compose.yaml")["services"]["skyband"]["image"] == image


class TestSparkOperator:
    """The manifest was validated against the operator's own schema by hand; it is too large to be stored here."""

    @pytest.fixture
    def spec(self):
        return read("spark-operator/application.yaml")["spec"]

    def test_it_has_the_settings_for_streams(self, spec):
        wanted = {setting.name: setting.value for setting in sessions.REQUIRED + sessions.RECOMMENDED}
        assert wanted.items() <= spec["sparkConf"].items()

    def test_it_runs_the_program_with_as_many_arguments(self, spec):
        assert Path(spec["mainApplicationFile"]).name == "job.py"
        assert (DEPLOY / "spark-operator" / "job.py").is_file()
        assert len(spec["arguments"]) == 3

    def test_it_has_the_tested_version_of_spark(self, spec):
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
        assert f"pyspark=={spec['sparkVersion']}" in pins
        assert spec["image"].endswith(f":{sb.__version__}")


def names_in(expression):
    return set(re.findall(r"skyband_\w+", expression))


class TestNumbers:
    """Dashboard and alerts are about numbers that a run tells."""

    @pytest.fixture
    def panels(self):
        return json.loads((DEPLOY / "grafana" / "skyband.json").read_text(encoding="utf-8"))["panels"]

    def expressions(self, panels):
        alerts = [rule["expr"] for group in read("prometheus/rules.yml")["groups"] for rule in group["rules"]]
        return [*alerts, *(target["expr"] for panel in panels for target in panel["targets"])]

    def test_every_number_has_a_panel(self, panels):
        assert set().union(*(names_in(target["expr"]) for panel in panels for target in panel["targets"])) == METRICS

    def test_only_numbers_that_exist_are_used(self, panels):
        for expression in self.expressions(panels):
            assert names_in(expression) <= METRICS
            assert names_in(expression) or expression.startswith("up{")
            assert all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}"))

    def test_what_is_counted_is_looked_at_by_its_rate_and_what_is_measured_is_not(self, panels):
        for expression in self.expressions(panels):
            rated = set(re.findall(r"(?:rate|increase)\((skyband_\w+)", expression))
            assert rated <= COUNTERS, expression

    def test_panels_do_not_overlap(self, panels):
        assert len({panel["id"] for panel in panels}) == len(panels)
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in panels)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24

    def test_prometheus_asks_where_the_run_answers(self):
        (job,) = read("prometheus/prometheus.yml")["scrape_configs"]
        ((target,),) = (one["targets"] for one in job["static_configs"])
        host, _, port = target.partition(":")
        assert host in read("docker-compose.yaml")["services"]
        assert port == str(container()["ports"][0]["containerPort"])
        assert (DEPLOY / "prometheus" / read("prometheus/prometheus.yml")["rule_files"][0]).is_file()


def test_the_service_has_temporary_files_of_its_own():
    page = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    unit = re.search(r"```ini\n(.*?)```", page, re.DOTALL)[1]
    assert {"PrivateTmp=yes", "UMask=0077"} <= set(unit.splitlines())
