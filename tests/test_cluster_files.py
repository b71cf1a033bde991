"""The files that start a cluster: accepted as shipped, by Ray too, and every mistake is named."""

from __future__ import annotations

import fnmatch
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from nalu_ray.cluster import aws, pins
from nalu_ray.cluster.__main__ import main
from nalu_ray.cluster.check import Checked, check
from nalu_ray.command.flags import parser

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
AWS, GCP, LOCAL = "cluster.yaml", "cluster/gcp.yaml", "cluster/on_premise.yaml"
SHIPPED = (AWS, GCP, LOCAL)
DOCS = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
SPOT = "available_node_types.gpu_spot"
LOCK = "-r ~/nalu-ray/cluster/requirements.lock"
HEAD_START = "head_start_ray_commands"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def no_token(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in the home of who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def load(name: str) -> dict[str, Any]:
    """Returns a file's content, no two places of which are one object."""
    shared = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return dict(yaml.safe_load(yaml.dump(shared, Dumper=NoAliases)))


def checked(folder: Path, config: Any, **options: bool) -> Checked:
    path = folder / "some.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return check(path, **options)


def put(path: str, value: Any) -> Change:
    """Returns a change that writes, or with ``...`` deletes, what dots lead to."""

    def change(config: dict[str, Any]) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in steps:
            config = config[step]
        if value is ...:
            del config[last]
        else:
            config[last] = value

    return change


def replace(field: str, old: str, new: str) -> Change:
    def change(config: dict[str, Any]) -> None:
        before = config[field]
        config[field] = [command.replace(old, new) for command in before]
        assert config[field] != before

    return change


MISTAKES: dict[str, tuple[str, Change, str]] = {
    "misspelt field": (AWS, put("max_worker", 3), "max_worker: unknown field 'max_worker'. Did"),
    "misspelt field of a node type": (
        AWS,
        put(f"{SPOT}.min_worker", 1),
        f"{SPOT}.min_worker: unknown field 'min_worker'. Did you mean 'min_workers'?",
    ),
    "misspelt field of the provider": (
        AWS,
        put("provider.regoin", "us-west-2"),
        "provider.regoin: unknown field 'regoin'. Did you mean 'region'?",
    ),
    "no region": (AWS, put("provider.region", ...), "provider.region: missing"),
    "unknown provider": (
        GCP,
        put("provider.type", "gpc"),
        "Ray refuses it: Unsupported node provider: gpc",
    ),
    "number as text": (
        AWS,
        put(f"{SPOT}.resources.GPU", "1"),
        f"{SPOT}.resources.GPU='1': '1' is not of type 'integer'",
    ),
    "no name": (AWS, put("cluster_name", ...), "cluster_name: missing"),
    "unknown head": (
        AWS,
        put("head_node_type", "haed"),
        "Ray refuses it: `head_node_type` must be one of `available_node_types`",
    ),
    "more at least than at most": (
        AWS,
        put("max_workers", -1),
        "max_workers=-1: -1 is less than the minimum of 0",
    ),
    "all minima above the maximum": (
        AWS,
        lambda config: [put(f"{SPOT}.min_workers", 8)(config), put("max_workers", 7)(config)],
        "Ray refuses it: The specified global `max_workers` is smaller than the sum",
    ),
    "minimum above a type's maximum": (
        AWS,
        lambda config: [
            put(f"{SPOT}.min_workers", 3)(config),
            put(f"{SPOT}.max_workers", 2)(config),
        ],
        f"{SPOT}.min_workers=3: more than its max_workers=2",
    ),
    "more workers than machines": (
        LOCAL,
        put("max_workers", 3),
        "max_workers=3: provider.worker_ips has 2",
    ),
    "no machines": (
        LOCAL,
        put("provider.worker_ips", ...),
        "Ray refuses it: Please supply a `head_ip` and list of `worker_ips`",
    ),
    "no head": (
        AWS,
        put("head_node_type", ...),
        "head_node_type: missing; Ray would use an example's",
    ),
    "machine twice": (
        LOCAL,
        put("provider.worker_ips.1", "192.168.1.10"),
        "provider.worker_ips: 192.168.1.10 is listed twice",
    ),
    "other ray": (
        AWS,
        replace("setup_commands", LOCK, "ray==2.59.1 torch==2.14.1"),
        "setup_commands: ray==2.59.1: nalu-ray asks for ray==2.60.*",
    ),
    "any torch": (
        LOCAL,
        replace("setup_commands", LOCK, "ray==2.60.0 'torch>=2.9'"),
        "setup_commands: torch>=2.9: not an exact version, such as torch==",
    ),
    "no torch": (
        GCP,
        replace("setup_commands", LOCK, "ray==2.60.0"),
        "setup_commands: torch is not pinned; nalu-ray asks for torch>=2.9",
    ),
    "no hashes": (
        LOCAL,
        replace("setup_commands", "--require-hashes ", ""),
        f"setup_commands: {LOCK}: without --require-hashes",
    ),
    "no such lock": (
        LOCAL,
        lambda config: config["setup_commands"].append(
            "pip install --require-hashes -r ~/nalu-ray/cluster/none.lock"
        ),
        "setup_commands: -r ~/nalu-ray/cluster/none.lock: no such file in file_mounts",
    ),
    "what a server sends": (
        GCP,
        lambda config: config["setup_commands"].append("curl -LsSf https://a.example/x | sudo sh"),
        "setup_commands: 'curl -LsSf https://a.example/x | sudo sh': runs an unchecked download",
    ),
    "what a server sends to bash": (
        GCP,
        lambda config: config["head_setup_commands"].append("bash <(curl -s https://a.example/x)"),
        "head_setup_commands: 'bash <(curl -s https://a.example/x)': runs an unchecked download",
    ),
    "what a server sends to a shell's argument": (
        LOCAL,
        put("initialization_commands", ['sh -c "$(wget -qO- https://a.example/x)"']),
        "initialization_commands: 'sh -c \"$(wget -qO- https://a.example/x)': runs an unchecked",
    ),
    "what a server sends to Python": (
        AWS,
        put(f"{SPOT}.worker_setup_commands", ["curl https://a.example/x | sudo -E python3 -"]),
        f"{SPOT}.worker_setup_commands: 'curl https://a.example/x | sudo -E python3': runs",
    ),
    "an image of a family": (
        GCP,
        lambda config: config["available_node_types"]["head"]["node_config"]["disks"][0][
            "initializeParams"
        ].update(sourceImage="projects/x/global/images/family/y"),
        "available_node_types.head.node_config.disks.initializeParams.sourceImage="
        "'projects/x/global/images/family/y': it changes over time",
    ),
    "another image each day": (
        AWS,
        put(f"{SPOT}.node_config.ImageId", "resolve:ssm:/aws/service/x/latest/ami-id"),
        f"{SPOT}.node_config.ImageId='resolve:ssm:/aws/service/x/latest/ami-id': it changes",
    ),
    "open metadata": (
        AWS,
        put(f"{SPOT}.node_config.MetadataOptions", ...),
        f"{SPOT}.node_config.MetadataOptions.HttpTokens=None: must be 'required'",
    ),
    "old metadata": (
        AWS,
        put(f"{SPOT}.node_config.MetadataOptions.HttpTokens", "optional"),
        f"{SPOT}.node_config.MetadataOptions.HttpTokens='optional': must be 'required'",
    ),
    "other python": (
        AWS,
        replace("setup_commands", "--python 3.11.7", "--python 3.9.1"),
        "setup_commands: python==3.9.1: nalu-ray asks for python",
    ),
    "two versions": (
        LOCAL,
        lambda config: config["setup_commands"].append("pip install ray==2.60.1"),
        "setup_commands: two versions of ray: ==2.60.0, ==2.60.1",
    ),
    "project not installed": (
        LOCAL,
        replace("setup_commands", "-e ~/nalu-ray", ""),
        "setup_commands: nothing installs the project from file_mounts",
    ),
    "open dashboard": (
        LOCAL,
        replace(HEAD_START, "127.0.0.1", "0.0.0.0"),
        f"{HEAD_START}: --dashboard-host=0.0.0.0: open to anybody who can reach the head",
    ),
    "no token asked for": (
        LOCAL,
        replace("worker_start_ray_commands", "RAY_AUTH_MODE=token ", ""),
        "worker_start_ray_commands: 'ray start' without RAY_AUTH_MODE=token",
    ),
    "no token on the nodes": (
        LOCAL,
        put("file_mounts", {"~/nalu-ray": "."}),
        "file_mounts: no ~/.ray/auth_token",
    ),
    "Ray's own start": (GCP, put(HEAD_START, ...), f"{HEAD_START}: missing; Ray's default command"),
    "group open to the world": (
        AWS,
        put(
            "provider.security_group",
            {"IpPermissions": [{"FromPort": 8265, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]},
        ),
        "provider.security_group.IpPermissions.0.IpRanges.0.CidrIp=0.0.0.0/0: the whole internet",
    ),
    "the launcher's group": (
        AWS,
        put(f"{SPOT}.node_config.SecurityGroupIds", ...),
        f"{SPOT}.node_config.SecurityGroupIds: missing; the launcher's default group opens SSH to",
    ),
    "no group's ID": (
        AWS,
        put(f"{SPOT}.node_config.SecurityGroupIds", ["nalu"]),
        f"{SPOT}.node_config.SecurityGroupIds='nalu': not a group ID",
    ),
    "no instance type": (
        AWS,
        put(f"{SPOT}.node_config.InstanceType", ...),
        f"{SPOT}.node_config.InstanceType: missing",
    ),
    "secret in a command": (
        GCP,
        lambda config: config["setup_commands"].append("export WANDB_API_KEY=correct-horse"),
        "setup_commands.6: looks like a secret",
    ),
    "access key": (
        AWS,
        put("provider.aws_credentials", {"aws_access_key_id": "AKIA" + 16 * "Q"}),
        "provider.aws_credentials.aws_access_key_id: looks like an access key of AWS",
    ),
    "token in the file": (
        LOCAL,
        put("metadata", {"it": 64 * "0a"[:1]}),
        "metadata.it: looks like a",
    ),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / name)]) == 0
    shown = capsys.readouterr()
    assert not shown.err
    # a file with an example's security group, or in an open network, is not called ok
    *notes, verdict = shown.out.splitlines()
    named = {
        "cluster.yaml": ["sg-00000000000000000", "ami-00000000000000000"],
        "cluster/gcp.yaml": ["opens SSH to 0.0.0.0/0"],
        "cluster/on_premise.yaml": [],
    }[name]
    assert len(notes) == len(named)
    assert all(text in note for text, note in zip(named, notes, strict=True))
    start = "no mistakes, but see the notes: " if named else "ok: "
    assert verdict.startswith(f"{ROOT / name}: {start}")


@pytest.mark.parametrize(
    ("field", "command", "note"),
    [
        ("setup_commands", "pip install einops==0.8.0", "pip install einops==0.8.0: nothing ver"),
        ("setup_commands", "cd x && ~/v/bin/python -m pip install -U -i a.b x y", "install x:"),
        ("head_setup_commands", "uv pip install --python ~/v 'wandb>=1'", "pip install wandb>=1:"),
        # the dependencies of a folder
        ("setup_commands", "pip install -q -e ~/mine", "pip install ~/mine: nothing verifies"),
        ("setup_commands", "pip install --no-deps -e ~/mine", None),
        ("setup_commands", "pip install --no-deps einops", "pip install einops:"),
        ("setup_commands", "pip install --no-deps git+https://a.b/c.git", "install git+https://a.b"),
        (f"{SPOT}.worker_setup_commands", "pip install einops", "pip install einops:"),
        ("setup_commands", f"pip install --require-hashes {LOCK}", None),
        ("setup_commands", "sudo apt-get install -y htop", None),
        ("setup_commands", "wget -O x a.b/c && sh x", "'wget -O x a.b/c && sh x': no check"),
        ("setup_commands", "curl -o x https://a.b/c && sha256sum -c x.sha256", None),
    ],
)  # fmt: skip
def test_a_download_that_nothing_fixes_is_noted_and_no_mistake(
    tmp_path: Path, field: str, command: str, note: str | None
) -> None:
    config = load(LOCAL)
    if "." in field:
        config = load(AWS)
        put(field, [command])(config)
    else:
        config[field] = [*config.get(field, []), command]
    found = checked(tmp_path, config)
    assert found.mistakes == []
    notes = [line for line in found.notes if "commands" in line]
    assert len(notes) == (note is not None)
    for line in notes:
        assert line.startswith(f"note: {field}: ")
        assert str(note) in line


@pytest.mark.parametrize(
    ("cidr", "is_open"),
    [("0.0.0.0/0", True), ("0.0.0.0/1", True), ("::/0", True), ("0:0::0/0", True),
     ("10.0.0.0/8", False), ("198.51.100.7/32", False)],
)  # fmt: skip
def test_an_open_security_group_is_named(tmp_path: Path, cidr: str, is_open: bool) -> None:
    config = load(AWS)
    rule = {"FromPort": 6379, "ToPort": 6379, "IpProtocol": "tcp", "IpRanges": [{"CidrIp": cidr}]}
    config["provider"]["security_group"] = {"GroupName": "nodes", "IpPermissions": [rule]}
    lines = checked(tmp_path, config).mistakes
    where = "provider.security_group.IpPermissions.0.IpRanges.0.CidrIp"
    assert [line.startswith(f"{where}={cidr}: the whole internet") for line in lines] == (
        [True] * is_open
    )


def test_a_template_of_cloudformation_is_no_cluster_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(ROOT / "cluster/aws_account.yaml")]) == 2
    assert "a template of AWS CloudFormation, not a cluster file" in capsys.readouterr().err


@pytest.mark.parametrize("name", SHIPPED)
def test_ray_accepts_what_ships(name: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(load(name)))


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_is_named(case: str, tmp_path: Path) -> None:
    name, change, expected = MISTAKES[case]
    config = load(name)
    change(config)
    (line,) = checked(tmp_path, config).mistakes
    assert line.startswith(expected)


def test_a_token_that_others_may_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("secret")
    for mode, expected in {
        0o644: [
            "file_mounts: ~/.ray/auth_token has mode 644: others may read the token; chmod 600"
        ],
        0o620: [
            "file_mounts: ~/.ray/auth_token has mode 620: others may read the token; chmod 600"
        ],
        0o600: [],
    }.items():
        token.chmod(mode)
        assert checked(tmp_path, load(AWS)).mistakes == expected
    token.unlink()
    assert checked(tmp_path, load(AWS)).mistakes == []


@pytest.mark.parametrize(
    "cases",
    [
        ("misspelt field", "number as text", "access key"),
        ("other ray", "open dashboard", "minimum above a type's maximum", "access key"),
    ],
    ids=["against the schema", "beyond the schema"],
)
def test_all_mistakes_at_once_and_exit_2(
    cases: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load(AWS)
    for case in cases:
        MISTAKES[case][1](config)
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert main(["check", str(path), str(ROOT / LOCAL)]) == 2
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert len(lines) == len(cases)
    for case in cases:
        assert any(line.startswith(f"error: {path}: {MISTAKES[case][2]}") for line in lines)
    assert "AKIA" not in shown.err
    assert f"{ROOT / LOCAL}: ok" in shown.out


@pytest.mark.parametrize(
    "case", ["open dashboard", "group open to the world", "the launcher's group"]
)
def test_open_if_asked_for(case: str, tmp_path: Path) -> None:
    name, change, _ = MISTAKES[case]
    config = load(name)
    change(config)
    assert not checked(tmp_path, config, allow_open=True).mistakes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "not YAML"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
        ("- a", "not a mapping"),
        ("provider: 3", "cluster_name: missing"),
    ],
)
def test_what_is_no_cluster_file(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    assert check(path).mistakes[0].startswith(expected)
    assert check(tmp_path / "none.yaml").mistakes == ["cannot be read: No such file or directory"]


def test_pins_are_the_projects() -> None:
    """Read from pyproject.toml itself; the check asks the installed metadata."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needs = map(
        Requirement,
        re.findall(r'^    "((?:ray|torch)(?:\[.*\])?[=<>][^"]*)",$', text, re.MULTILINE),
    )
    asked = {need.name: need.specifier for need in needs}
    asked["python"] = SpecifierSet(*re.findall(r'^requires-python = "(.*)"$', text, re.MULTILINE))
    assert asked == pins.wanted()
    found = [pins._versions(load(name)) for name in SHIPPED]
    for name, allowed in asked.items():
        versions = {version for each in found for version in each[name]}
        assert all(allowed.contains(version.removeprefix("==")) for version in versions)
        longest = max(versions, key=len)
        assert all(longest.startswith(version) for version in versions)


@pytest.mark.parametrize("name", SHIPPED)
def test_nodes_get_the_package_and_the_token(name: str) -> None:
    config = load(name)
    mounts = dict(config["file_mounts"])
    assert mounts.pop("~/.ray/auth_token") == "~/.ray/auth_token"
    wheel = re.search(r"wheel\]\nonly-include = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert wheel is not None
    assert set(re.findall(r'"(\w+)"', wheel[1])) < set(mounts.values())
    assert all((ROOT / local).exists() for local in mounts.values())
    assert all(target == f"~/nalu-ray/{local}" for target, local in mounts.items())
    # each path is a copy of its own, where /results is nalu_ray/results, which is source
    assert set(config["rsync_exclude"]) == {".git", ".venv", "__pycache__"}
    assert not {".", "results", "data"} & set(mounts.values())
    assert config["auth"]["ssh_user"] != "root"


def test_aws_is_a_cpu_head_and_gpus_by_need() -> None:
    config = load(AWS)
    kinds = config["available_node_types"]
    assert kinds["head"]["resources"] == {"CPU": 0}
    spot, on_demand = kinds["gpu_spot"], kinds["gpu_on_demand"]
    assert spot["node_config"].pop("InstanceMarketOptions") == {"MarketType": "spot"}
    assert spot == on_demand
    assert spot["min_workers"] == 0
    assert config["idle_timeout_minutes"] > 0
    assert config["provider"]["cache_stopped_nodes"] is False


def template() -> dict[str, Any]:
    class Tags(yaml.SafeLoader):
        """Takes CloudFormation's tags, such as !Ref, for their values."""

    Tags.add_multi_constructor("!", lambda loader, _, made: loader.construct_scalar(made))
    text = (ROOT / "cluster" / "aws_account.yaml").read_text(encoding="utf-8")
    return dict(yaml.load(text, Tags))


def allowed(action: str) -> list[dict[str, Any]]:
    """Returns the head's statements for an action of EC2 or IAM."""
    (policy,) = template()["Resources"]["HeadRole"]["Properties"]["Policies"]
    found = []
    for statement in policy["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow"
        actions = statement["Action"]
        actions = actions if isinstance(actions, list) else [actions]
        if any(fnmatch.fnmatchcase(action, pattern) for pattern in actions):
            found.append(statement)
    return found


OURS = {"StringEquals": {"aws:ResourceTag/ray-cluster-name": "ClusterName"}}


@pytest.mark.parametrize("action", ["Start", "Stop", "Terminate"])
def test_the_head_ends_instances_of_its_cluster_alone(action: str) -> None:
    (only,) = allowed(f"ec2:{action}Instances")
    assert only["Condition"] == OURS
    assert only["Resource"].endswith(":instance/*")


def test_the_head_tags_instances_of_its_cluster_alone() -> None:
    """And does not give the cluster's tag to another instance, nor take it away."""
    made, later = allowed("ec2:CreateTags")
    tag = {"aws:RequestTag/ray-cluster-name": "ClusterName"}
    assert made["Condition"] == {"StringEquals": {"ec2:CreateAction": "RunInstances", **tag}}
    assert later["Condition"] == {**OURS, "StringEqualsIfExists": tag}
    assert all(each["Resource"].endswith(":instance/*") for each in (made, later))
    assert not allowed("ec2:DeleteTags")


def test_the_head_starts_instances_of_some_types_alone() -> None:
    instances, around = allowed("ec2:RunInstances")
    assert instances["Resource"].endswith(":instance/*")
    assert instances["Condition"]["StringEquals"] == {
        "aws:RequestTag/ray-cluster-name": "ClusterName",
        "ec2:InstanceType": "WorkerTypes",
        "ec2:MetadataHttpTokens": "required",
    }
    assert not any(name.endswith((":*", ":instance/*")) for name in around["Resource"])
    (group,) = [name for name in around["Resource"] if "security-group" in name]
    assert group.endswith(":security-group/${Nodes.GroupId}")
    parameters = template()["Parameters"]
    config = load(AWS)
    assert parameters["ClusterName"]["Default"] == config["cluster_name"]
    kinds = config["available_node_types"]
    types = {kind["node_config"]["InstanceType"] for name, kind in kinds.items() if name != "head"}
    assert types <= set(parameters["WorkerTypes"]["Default"].split(","))


def test_the_head_may_do_anything_nowhere() -> None:
    """A statement for all resources only looks."""
    actions = ("ec2:Describe*", "ec2:RunInstances", "ec2:CreateTags", "iam:PassRole")
    everywhere = [each for name in actions for each in allowed(name) if each["Resource"] == "*"]
    assert [each["Action"] for each in everywhere] == ["ec2:Describe*"]
    (role,) = allowed("iam:PassRole")
    assert role["Resource"] == "WorkerRole.Arn"
    assert role["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_the_account_has_what_the_cluster_names() -> None:
    account = template()
    made = account["Resources"].values()
    profiles = {item.get("Properties", {}).get("InstanceProfileName") for item in made} - {None}
    kinds = load(AWS)["available_node_types"].values()
    assert profiles == {kind["node_config"]["IamInstanceProfile"]["Name"] for kind in kinds}
    (rule,) = account["Resources"]["Nodes"]["Properties"]["SecurityGroupIngress"]
    assert rule == {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "SshFrom"}
    allowed = re.compile(account["Parameters"]["SshFrom"]["AllowedPattern"])
    assert allowed.fullmatch("203.0.113.7/32")
    assert not allowed.fullmatch("0.0.0.0/0")


LOCKS = {path.name: path for path in sorted((ROOT / "cluster").glob("*.lock"))}


def locked(name: str) -> dict[str, tuple[Version, Marker | None, int]]:
    """Returns what a lock has for Python 3.11 on Linux: version, marker, number of hashes."""
    here = {"python_full_version": "3.11.7", "python_version": "3.11"}
    found = {}
    text = LOCKS[name].read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            words, *hashes = line.split("--hash=sha256:")
            need = Requirement(words)
            if need.marker is None or need.marker.evaluate(here):
                (only,) = need.specifier
                assert only.operator == "=="
                found[canonicalize_name(need.name)] = (
                    Version(only.version),
                    need.marker,
                    sum(bool(re.fullmatch(r"[0-9a-f]{64}", each.strip())) for each in hashes),
                )
                assert found[canonicalize_name(need.name)][2] == len(hashes)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_a_hash_for_each_version_and_name_no_index(name: str) -> None:
    assert all(hashes > 0 for _, _, hashes in locked(name).values())
    text = LOCKS[name].read_text(encoding="utf-8")
    assert not re.search(r"://|index|find-links|pythonhosted|pypi", text)


def test_the_lock_is_the_projects() -> None:
    """All that pyproject.toml asks for is there, in a version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = locked("requirements.lock")
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    extra = (ROOT / "cluster" / "requirements.in").read_text(encoding="utf-8").splitlines()
    asked += [line for line in extra if line and not line.startswith("#")]
    for need in map(Requirement, asked):
        version = found[canonicalize_name(need.name)][0]
        assert need.specifier.contains(version), need
    for name, allowed in pins.wanted().items():
        if name != "python":
            assert allowed.contains(found[name][0])


@pytest.mark.parametrize("name", ["requirements.lock"])
def test_the_lock_is_whole(name: str) -> None:
    """What the locked versions need in turn, as far as they are installed here, is locked too."""
    found, looked = locked(name), 0
    for package, (version, _, _) in found.items():
        try:
            about = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        if Version(about.version) != version:
            continue
        looked += 1
        for need in map(Requirement, about.requires or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                other = found[canonicalize_name(need.name)][0]
                assert need.specifier.contains(other, prereleases=True), (package, need)
    assert looked > 20


def test_locks_agree_with_one_another() -> None:
    nodes = locked("requirements.lock")
    for name in ("aws.lock", "gcp.lock"):
        for package, (version, *_) in locked(name).items():
            assert package not in nodes or nodes[package][0] == version, package
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"boto3=={locked("aws.lock")["boto3"][0]}"' in project


@pytest.mark.parametrize("name", SHIPPED)
def test_nodes_install_by_hashes_alone(name: str) -> None:
    """Each command that installs names a lock, or installs the project and nothing else."""
    config = load(name)
    commands = [*config["setup_commands"], *config.get("head_setup_commands", [])]
    parts = [part for line in commands for part in re.split("&&|[|]{2}|;", line)]
    installing = [part for part in parts if "pip install" in part]
    assert len(installing) >= 2
    for part in installing:
        lock = re.search(r"--require-hashes -r ~/nalu-ray/cluster/([\w.]+)$", part.strip())
        if lock is None:
            assert part.strip().endswith("--no-deps --no-build-isolation -e ~/nalu-ray")
        else:
            assert lock[1] in LOCKS
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search("curl|wget|https?://(?!www.googleapis.com/auth)", text)


def test_images_stay_what_they_are() -> None:
    for name, field in ((AWS, "ImageId"), (GCP, "sourceImage")):
        text = yaml.safe_dump(load(name)["available_node_types"])
        images = set(re.findall(rf"{field}: (.*)", text))
        assert len(images) == 1
        assert not re.search("latest|family", images.pop())


def test_metadata_needs_a_token() -> None:
    for kind in load(AWS)["available_node_types"].values():
        options = kind["node_config"]["MetadataOptions"]
        assert options == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}


AWS_MISTAKES: dict[str, tuple[str, Any, str]] = {
    "key": (
        "InstanceTyp",
        "g4dn.xlarge",
        ".InstanceTyp: unknown field 'InstanceTyp'. Did you mean",
    ),
    "inner key": (
        "BlockDeviceMappings",
        [{"DeviceName": "/dev/sda1", "Ebs": {"VolumSize": 9}}],
        ".BlockDeviceMappings.0.Ebs.VolumSize: unknown field 'VolumSize'. Did you mean 'Volume",
    ),
    "instance type": (
        "InstanceType",
        "g4dn.xxlarge",
        ".InstanceType='g4dn.xxlarge': unknown value 'g4dn.xxlarge'. Did you mean 'g4dn.",
    ),
    "market": (
        "InstanceMarketOptions",
        {"MarketType": "sport"},
        ".InstanceMarketOptions.MarketType='sport': unknown value 'sport'. Did you mean 'spot'?",
    ),
    "shape": ("SecurityGroupIds", "sg-0a1b2c3d", ".SecurityGroupIds='sg-0a1b2c3d': not a list"),
    "number": ("EbsOptimized", "yes", ".EbsOptimized='yes': not a boolean"),
    "Ray's own": ("MaxCount", 3, ".MaxCount: Ray sets it"),
}


@pytest.mark.parametrize("case", AWS_MISTAKES)
def test_aws_keys_and_values(case: str, tmp_path: Path) -> None:
    key, value, expected = AWS_MISTAKES[case]
    config = load(AWS)
    config["available_node_types"]["gpu_spot"]["node_config"][key] = value
    (line,) = checked(tmp_path, config).mistakes
    assert line.startswith(f"{SPOT}.node_config{expected}")


def test_without_botocore_the_form_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "find_spec", lambda name: None)
    config = load(AWS)
    node = config["available_node_types"]["gpu_spot"]["node_config"]
    node |= {"InstanceType": "g4dn.xlrge", "Unchecked": 1}
    found = checked(tmp_path, config)
    (line,) = found.mistakes
    assert line.startswith(f"{SPOT}.node_config.InstanceType='g4dn.xlrge': not FAMILY.SIZE")
    assert any("boto3 is not installed" in note for note in found.notes)


def test_on_demand_when_there_is_no_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.autoscaler._private.node_provider_availability_tracker import (
        NodeProviderAvailabilityTracker,
    )
    from ray.autoscaler._private.resource_demand_scheduler import (
        ResourceDemandScheduler,
        get_nodes_for,
    )
    from ray.autoscaler.node_launch_exception import NodeLaunchException

    config = load(AWS)
    (start,) = [command for command in config[HEAD_START] if "ray start" in command]
    name = "RAY_AUTOSCALER_UTILIZATION_SCORER"
    monkeypatch.setenv(
        name, dict(word.split("=", 1) for word in start.split() if "=" in word)[name]
    )
    kinds = config["available_node_types"]
    kinds["head"]["max_workers"] = 0
    for kind in ("gpu_spot", "gpu_on_demand"):  # what AWS tells of a g4dn.xlarge
        kinds[kind]["resources"] = {"CPU": 4, "GPU": 1}
    scheduler = ResourceDemandScheduler(None, kinds, 8, "head", 1.0)
    launches = NodeProviderAvailabilityTracker()

    def chosen() -> dict[str, int]:
        scorer = partial(scheduler.utilization_scorer, node_availability_summary=launches.summary())
        trial = {"CPU": 1, "GPU": 0.25}
        return dict(
            get_nodes_for(kinds, {"head": 1}, "head", 8, [trial], utilization_scorer=scorer)[0]
        )

    assert chosen() == {"gpu_spot": 1}
    none_left = NodeLaunchException("InsufficientInstanceCapacity", "none", None)
    launches.update_node_availability("gpu_spot", int(time.time()), none_left)
    assert chosen() == {"gpu_on_demand": 1}
    launches.update_node_availability("gpu_spot", int(time.time()) + 1, None)
    assert chosen() == {"gpu_spot": 1}


def documented(program: str) -> list[list[str]]:
    """Returns the words of every command of a program in the documentation."""
    blocks = "\n".join(re.findall(r"```console\n(.*?)```", DOCS, re.DOTALL)).replace("\\\n", " ")
    found = [line for line in blocks.splitlines() if line.startswith(program)]
    assert found
    return [shlex.split(line.partition(" > ")[0])[len(program.split()) :] for line in found]


@pytest.mark.parametrize("words", documented("ray "), ids=" ".join)
def test_documented_commands_are_rays(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.scripts.scripts import cli

    monkeypatch.chdir(ROOT)
    command: Any = cli
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    given = command.make_context(name, list(words)).params
    files = [given[key] for key in given if key == "cluster_config_file"]
    assert all(Path(file).is_file() for file in files)
    # what runs on the cluster is a command of ours
    own = [word for key in ("script_args", "entrypoint") for word in given.get(key) or ()]
    if own:
        starts = own.index("static")
        assert starts == 0 or own[:starts] == ["python", "-m", "nalu_ray.tune"]
        assert not parser().parse_known_intermixed_args(own[starts:])[1]


def test_documented_checks_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert [main(words) for words in documented("python -m nalu_ray.cluster ")] == [0, 0]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("max_workers: 8", "max_workers: 1:30", "max_workers='1:30': Ray reads 90; quote it"),
        ("max_workers: 8", "max_workers: 010", "max_workers=10: Ray reads 8; quote it"),
        ("max_workers: 8", "max_workers: 1e1", "max_workers=10.0: Ray reads '1e1'; quote it"),
        ("max_workers: 8", "max_workers: 1_0", "max_workers='1_0': Ray reads 10; quote it"),
        ("max_workers: 8", "max_workers: 8\nmax_workers: 2", "'max_workers' stands twice"),
        ("max_workers: 8", "idle: off\nmax_workers: 8", "idle='off': Ray reads False; quote it"),
        ("max_workers: 8", "no: 1\nmax_workers: 8", "keys="),
        ("max_workers: 8", "max_workers: 8\n5: 6", "5: a name must be text; quote it"),
        ("max_workers: 8", "a: 2020-99-99\nmax_workers: 8", "Ray reads ValueError("),
    ],
)
def test_what_ray_reads_otherwise_than_it_is_written(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    text = (ROOT / AWS).read_text(encoding="utf-8")
    assert text.count(f"\n{before}\n") == 1
    path = tmp_path / "c.yaml"
    path.write_text(text.replace(f"\n{before}\n", f"\n{after}\n"), encoding="utf-8")
    (line,) = check(path).mistakes
    assert told in line
    assert len(line) < 250
