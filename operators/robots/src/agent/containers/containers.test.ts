import type { JsonObject } from "@keelson/api-machinery";
import type { ContainerImage } from "@keelson/execution";
import { expect, test } from "vitest";
import { defaultRobotPolicy, readRobotPolicy } from "../policy/robot-policy.ts";
import { readDispatch, type TaskOrder } from "../tasks/task-order.ts";
import { programSpecOf } from "../tasks/task-program.ts";
import { containerProgram } from "./container-program.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const policyWith = (docker: object) => ({ robotId: "r1", ...readRobotPolicy({ docker }) });
const open = policyWith({ volumes: ["/srv/maps"], writableVolumes: ["/var/lib/map-cache"] });

function read(
  dockerConfig: JsonObject,
  policy: Parameters<typeof readDispatch>[1] = open,
  more: JsonObject = {},
): TaskOrder | string {
  const spec = { name: "t", driver: "docker", config: { dockerConfig }, ...more };
  const message = { action: "create", task: { metadata: { uid }, spec, status: { attempt: 1 } } };
  const dispatch = readDispatch(Buffer.from(JSON.stringify(message)), policy);
  if (typeof dispatch === "string" || dispatch.action !== "create") throw new Error("not a create");
  return "problem" in dispatch ? dispatch.problem : dispatch.order;
}

const image: ContainerImage = {
  ...{ name: "docker.io/library/nav:1", digest: "sha256:1", chainId: "", diffIds: [], env: { PATH: "/opt" } },
  ...{ entrypoint: ["/nav"], command: ["--default"], workingDir: "/app" },
};

function specFor(dockerConfig: JsonObject, policy = open) {
  const order = read(dockerConfig, policy);
  if (typeof order === "string" || order.container === undefined) throw new Error("no container");
  const container = containerProgram(order.container, { image, dir: "/work/t", policy: policy.docker });
  return programSpecOf({ uid, attempt: 1, run: 0 }, order, { dir: "/work/t", container });
}

test("a container runs the image's command in its directory, with its environment and the task's directory", () => {
  const spec = specFor({ image: "nav:1" });
  expect(spec).toMatchObject({ command: ["/nav", "--default"], cwd: "/app" });
  expect(spec.isolation).toEqual({
    ...{ image: "docker.io/library/nav:1", network: "shared" },
    binds: [{ source: "/work/t", target: "/task", isWritable: true }],
  });
  expect(spec.env).not.toHaveProperty("PATH");
  expect(spec.env).toMatchObject({ K8S4R_TASK_UID: uid });
});

test.each([
  [{ args: ["x"] }, ["/nav", "x"]],
  [{ command: ["/own"] }, ["/own"]],
  [{ command: ["/own"], args: ["x"] }, ["/own", "x"]],
])("%j replaces parts of the image's command", (config, command) => {
  expect(specFor({ image: "nav:1", ...config }).command).toEqual(command);
});

test("volumes and the network are those of the task, within the policy", () => {
  const volumes = [
    { source: "/srv/maps", target: "/maps", readOnly: true },
    { source: "/var/lib/map-cache", target: "/cache", readOnly: false },
  ];
  expect(specFor({ image: "nav:1", workDir: "/maps", networkMode: "none", volumes })).toMatchObject({
    cwd: "/maps",
    isolation: {
      network: "none",
      binds: [
        { source: "/srv/maps", target: "/maps" },
        { source: "/var/lib/map-cache", target: "/cache", isWritable: true },
        {},
      ],
    },
  });
  expect(specFor({ image: "nav:1" }, policyWith({ network: "none" })).isolation?.network).toBe("none");
});

test.each([
  [{}, {}, "spec.config.dockerConfig.image is missing"],
  [{ image: "Not::valid" }, {}, "spec.config.dockerConfig.image: "],
  [{ image: "nav" }, { images: ["registry.example.com/fleet/"] }, "docker.io/library/nav:latest is not allowed"],
  [
    { image: "nav:10" },
    { images: ["nav:1"] },
    "docker.io/library/nav:10 is not allowed; the robot's policy allows docker.io/library/nav:1",
  ],
  [
    { image: "r.example.com/fleet-2/nav" },
    { images: ["r.example.com/fleet"] },
    "r.example.com/fleet-2/nav:latest is not allowed",
  ],
  [{ image: "nav", networkMode: "bridge" }, {}, 'networkMode: "bridge" must be host or none'],
  [{ image: "nav", networkMode: "host" }, { network: "none" }, "networkMode: the robot's policy allows none only"],
  [{ image: "nav", ports: [{ label: "a", value: 80, to: 8080 }] }, {}, "ports[0].to must be the same as value"],
  [{ image: "nav", workDir: "app" }, {}, "workDir must be an absolute path"],
  [{ image: "nav", command: "sh" }, {}, "command must be a list of strings"],
  [{ image: "nav", volumes: [{ source: "/etc", target: "/x" }] }, {}, "volumes[0].source: /etc is not allowed"],
  [
    { image: "nav", volumes: [{ source: "/a", target: "/x" }] },
    { volumes: ["/a"] },
    "not allowed by the robot's policy for writing",
  ],
  // A container could have put a link there.
  [{ image: "nav", volumes: [{ source: "/a/b", target: "/x" }] }, { writableVolumes: ["/a"] }, "/a/b is not allowed"],
  [{ image: "nav", volumes: [{ source: "/a/../etc", target: "/x" }] }, { writableVolumes: ["/a"] }, "must be an absolute path"],
  [{ image: "nav", volumes: [{ source: "/a", target: "/" }] }, { writableVolumes: ["/a"] }, "target must be an absolute path"],
])("the container %j is rejected under the policy %j", (config, docker, message) => {
  expect(read(config, policyWith(docker))).toContain(message);
});

test("a container gets no devices, and none runs without containerd", () => {
  const devices = [{ name: "arm", count: 1 }];
  const targetDevices = [{ name: "arm", ids: ["/dev/arm"] }];
  const policy = { ...open, ...readRobotPolicy({ docker: {}, devices: [{ name: "arm", paths: ["/dev/arm"] }] }) };
  expect(read({ image: "nav" }, policy, { resources: { devices }, targetDevices })).toContain("the docker driver has none");
  expect(read({ image: "nav" }, { robotId: "r1", ...defaultRobotPolicy })).toContain('robot r1 has no driver "docker"');
  const unavailable = { docker: "containerd does not respond" };
  expect(read({ image: "nav" }, { ...open, drivers: ["exec"], unavailable })).toContain(
    "(containerd does not respond); it has exec",
  );
});

test("a container without a command is rejected", () => {
  const container = { image: image.name, command: [], args: [], volumes: [] };
  const bare = { ...image, entrypoint: [], command: [] };
  expect(() => containerProgram(container, { image: bare, dir: "/t", policy: open.docker })).toThrow(
    "neither the task nor the image docker.io/library/nav:1 has one",
  );
});
