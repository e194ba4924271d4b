import { expect, test } from "vitest";
import { agentPolicyOf } from "./agent-policy.ts";
import { defaultRobotPolicy, isAllowedSource, programProblem, readRobotPolicy } from "./robot-policy.ts";

test("a policy replaces the defaults field by field", () => {
  expect(readRobotPolicy({})).toEqual(defaultRobotPolicy);
  const artifacts = { sources: ["https://files.example.com/fleet/"], maxSize: "10Mi", timeout: "5m", requireChecksum: false };
  expect(readRobotPolicy({ drivers: ["exec"], users: ["robot"], artifacts })).toEqual({
    drivers: ["exec"],
    users: ["robot"],
    artifacts: {
      ...defaultRobotPolicy.artifacts,
      ...{ sources: ["https://files.example.com/fleet/"], requireChecksum: false, maxBytes: 10 * 2 ** 20, timeoutMs: 300_000 },
    },
  });
});

test.each([
  [[], "the policy must be an object"],
  [null, "the policy must be an object"],
  [{ driver: ["exec"] }, "driver is not a known field"],
  [{ drivers: "exec" }, 'drivers: "exec" must be a list'],
  [{ drivers: ["docker"] }, 'drivers: "docker" must be one of exec, raw_exec, java'],
  [{ users: [1] }, "users: 1 must be a string"],
  [{ exec: "no" }, 'exec: "no" must be true or false'],
  [{ commands: ["sh"] }, 'commands: "sh" must be an absolute path'],
  [{ commands: ["/opt/../bin/"] }, "must be an absolute path"],
  [{ isolation: true }, "isolation must be an object"],
  [{ isolation: { network: "host" } }, "isolation.network"],
  [{ isolation: { paths: ["opt"] } }, "isolation.paths"],
  [{ isolation: { writablePaths: ["/"] } }, "isolation.writablePaths"],
  [{ docker: true }, "docker must be an object"],
  [{ docker: { volumes: ["/srv/"] } }, 'docker.volumes: "/srv/" must be an absolute path'],
  [{ docker: { writableVolumes: ["/"] } }, "docker.writableVolumes"],
  [{ docker: { network: "bridge" } }, 'docker.network: "bridge" must be shared or none'],
  [{ docker: { socket: "containerd.sock" } }, "docker.socket"],
  [{ docker: { images: ["registry.example.com/fleet-"] } }, 'docker.images: "registry.example.com/fleet-" must be the name'],
  [{ docker: { pullTimeout: "0s" } }, 'docker.pullTimeout: "0s" must be a duration'],
  [{ docker: { pull: "yes" } }, "docker.pull"],
  [{ docker: { cacheSize: "large" } }, 'docker.cacheSize: "large" must be a size'],
  [{ docker: { unusedImageAge: "0s" } }, 'docker.unusedImageAge: "0s" must be a duration'],
  [{ locationFile: "run/x" }, "locationFile"],
  [{ devices: {} }, "devices: {} must be a list"],
  [{ devices: [{ paths: ["/dev/x"] }] }, "devices[0].name"],
  [{ devices: [{ name: "a/b/c/d", paths: ["/dev/x"] }] }, "devices[0].name"],
  [{ devices: [{ name: "arm" }] }, "devices[0].paths"],
  [{ devices: [{ name: "arm", paths: ["/etc/shadow"] }] }, 'devices[0].paths: "/etc/shadow" must be a path below /dev'],
  [{ devices: [{ name: "arm", paths: ["/dev/../etc/x"] }] }, "devices[0].paths"],
  [{ devices: [{ name: "arm", paths: ["/dev/*/x"] }] }, "with * only in its last part"],
  [{ devices: [{ name: "arm", paths: ["/dev/x"], companions: ["/dev/*"] }] }, "devices[0].companions"],
  [{ devices: [{ name: "arm", paths: ["/dev/x"], shares: 0 }] }, "devices[0].shares: 0 must be a whole number"],
  [{ devices: [{ name: "arm", paths: ["/dev/x"], attributes: { a: 1 } }] }, "devices[0].attributes"],
  [{ devices: [{ name: "arm", path: "/dev/x" }] }, "devices[0].path is not a known field"],
  [{ artifacts: { source: [] } }, "artifacts.source is not a known field"],
  [{ artifacts: { sources: ["ftp://h/"] } }, "artifacts.sources"],
  [{ artifacts: { sources: ["https://u:p@h/"] } }, "must not contain credentials"],
  [{ artifacts: { sources: ["file://h/x"] } }, "artifacts.sources"],
  [{ artifacts: { requireChecksum: "no" } }, "artifacts.requireChecksum"],
  [{ artifacts: { maxSize: "lots" } }, 'artifacts.maxSize: "lots" must be a size'],
  [{ artifacts: { maxSize: -1 } }, "artifacts.maxSize"],
  [{ artifacts: { timeout: "0s" } }, "artifacts.timeout"],
  [{ artifacts: { timeout: 5 } }, "artifacts.timeout"],
])("the policy %j is rejected with the field's name", (policy, message) => {
  expect(() => readRobotPolicy(policy)).toThrow(message);
});

test.each([
  ["https://", "https://any.example.com/x", true],
  ["https://", "http://any.example.com/x", false],
  ["https://h/", "https://h/x", true],
  ["https://h/", "https://h:8443/x", false],
  ["https://h/", "https://h.evil.com/x", false],
  ["https://h/a/", "https://h/a/b", true],
  ["https://h/a", "https://h/ab", false],
  ["https://h/a/", "https://h/a/../b", false],
  ["https://h/a/", "https://h/a/%2e%2e/b", false],
  ["https://h/a/", "https://h/a/..%2fb", false],
  ["https://h/", "https://user@h/x", false],
  ["file:///srv/", "file:///srv/x", true],
  ["file:///srv/", "file:///srv/../etc/passwd", false],
  ["file:///srv/", "file:///etc/passwd", false],
  ["https://", "file:///etc/passwd", false],
])("with the source %s, %s is allowed: %j", (source, url, isAllowed) => {
  expect(isAllowedSource({ sources: [source] }, new URL(url))).toBe(isAllowed);
});

test("with isolation, a driver without it must be allowed explicitly", () => {
  const isolation = { paths: ["/opt/ros"] };
  expect(readRobotPolicy({ isolation })).toMatchObject({
    ...{ drivers: ["exec", "java"], isolation: { network: "shared", paths: ["/opt/ros"], writablePaths: [] } },
  });
  expect(readRobotPolicy({ isolation, drivers: ["exec", "raw_exec"] }).drivers).toEqual(["exec", "raw_exec"]);
});

test("a robot without java does not offer it", () => {
  expect(agentPolicyOf("r1", defaultRobotPolicy, { exists: () => true }).drivers).toEqual(["exec", "raw_exec", "java"]);
  expect(agentPolicyOf("r1", defaultRobotPolicy, { exists: () => false })).toMatchObject({
    ...{ drivers: ["exec", "raw_exec"], unavailable: { java: expect.stringContaining("java is not installed") } },
  });
});

test("containers must be allowed, and need containerd", () => {
  expect(readRobotPolicy({}).drivers).not.toContain("docker");
  const policy = readRobotPolicy({ docker: {} });
  expect(policy.drivers).toEqual(["exec", "raw_exec", "java", "docker"]);
  expect(policy.docker).toEqual({
    ...{ pull: true, pullTimeoutMs: 3_600_000, network: "shared", volumes: [], writableVolumes: [] },
    ...{ cacheBytes: 10 * 2 ** 30, unusedImageMs: 2_592_000_000 },
  });
  const limits = readRobotPolicy({ docker: { cacheSize: "2Gi", unusedImageAge: "24h" } }).docker;
  expect(limits).toMatchObject({ cacheBytes: 2 ** 31, unusedImageMs: 86_400_000 });
  expect(readRobotPolicy({ docker: { pullTimeout: "10m" } }).docker?.pullTimeoutMs).toBe(600_000);
  expect(readRobotPolicy({ docker: {}, isolation: {} }).drivers).toEqual(["exec", "java", "docker"]);
  expect(readRobotPolicy({ docker: {}, drivers: ["docker"] }).drivers).toEqual(["docker"]);
  const noContainers = "containerd does not respond";
  expect(agentPolicyOf("r1", policy, { exists: () => true, noContainers })).toMatchObject({
    ...{ drivers: ["exec", "raw_exec", "java"], unavailable: { docker: noContainers } },
  });
});

test("users and commands beyond the policy are rejected", () => {
  const policy = { users: ["robot"], commands: ["/opt/robot/", "/bin/true"] };
  const problem = (command: string, user?: string) => programProblem(policy, { command, user });
  expect(problem("/opt/robot/bin/go", "robot")).toBeUndefined();
  expect(problem("/bin/true", "robot")).toBeUndefined();
  expect(problem("/bin/true", "root")).toBe('spec.user: "root" is not allowed; the robot\'s policy allows robot');
  expect(problem("/bin/true")).toBe("spec.user is missing; the robot's policy allows robot");
  for (const command of ["/bin/truex", "true", "./x", "/opt/robot/../../bin/sh", "/opt/robot/", "/opt/robots/x"]) {
    expect(problem(command, "robot")).toContain("is not allowed; the robot's policy allows /opt/robot/, /bin/true");
  }
  expect(programProblem({ commands: [] }, { command: "/bin/true", user: undefined })).toContain("allows no command");
  expect(programProblem({}, { command: "anything", user: "anyone" })).toBeUndefined();
});
