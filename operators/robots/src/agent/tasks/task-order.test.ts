import fc from "fast-check";
import { expect, test } from "vitest";
import { defaultRobotPolicy } from "../policy/robot-policy.ts";
import { orderProblem, readDispatch, underPolicy } from "./task-order.ts";
import { reportOfExit, withoutControls } from "./task-reports.ts";

const uid = "0a0b0c0d-0000-4000-8000-000000000001";
const policy = { robotId: "r1", ...defaultRobotPolicy };
const read = (message: unknown) => readDispatch(Buffer.from(JSON.stringify(message)), policy);
const task = (spec: object, status: object = { attempt: 2 }) => ({
  action: "create",
  task: {
    metadata: { uid, labels: { taskindex: "4" } },
    spec: { name: "t", driver: "exec", config: { execConfig: { command: "./run", args: ["a"] } }, ...spec },
    status,
  },
});

test("a task becomes a program with its limits and variables that identify it", () => {
  const spec = {
    jobName: "job",
    taskGroupName: "job-group",
    env: { A: "1", K8S4R_ROBOT: "forged" },
    user: "nobody",
    timeout: "1m30s",
    killTimeout: "10s",
    resources: { cpu: "500m", memory: "64Mi" },
  };
  expect(read(task(spec))).toEqual({
    action: "create",
    uid,
    attempt: 2,
    order: {
      command: ["./run", "a"],
      env: {
        A: "1",
        K8S4R_JOB: "job",
        K8S4R_TASK_GROUP: "job-group",
        K8S4R_TASK: "t",
        K8S4R_TASK_INDEX: "4",
        K8S4R_TASK_UID: uid,
        K8S4R_ROBOT: "r1",
        K8S4R_ATTEMPT: "2",
      },
      user: "nobody",
      timeoutMs: 90_000,
      killGraceMs: 10_000,
      limits: { cpuMillis: 500, memoryBytes: 64 * 1024 * 1024 },
    },
  });
});

test.each([
  [{ jarPath: "local/x.jar", args: ["a"], jvmOptions: ["-Xmx1g"] }, ["java", "-Xmx1g", "-jar", "local/x.jar", "a"]],
  [
    { jarPath: "x.jar", class: "com.example.Main", classpath: ["lib/y.jar"] },
    ["java", "-cp", "x.jar:lib/y.jar", "com.example.Main"],
  ],
])("the java configuration %j becomes %j", (javaConfig, command) => {
  expect(read(task({ driver: "java", config: { javaConfig } }))).toMatchObject({ order: { command } });
});

test("a robot says why it does not have a driver that its owner allows", () => {
  const message = Buffer.from(JSON.stringify(task({ driver: "java" })));
  const robot = { ...policy, drivers: ["exec"], unavailable: { java: "java is not installed" } };
  expect(readDispatch(message, robot)).toMatchObject({
    problem: 'spec.driver: robot r1 has no driver "java" (java is not installed); it has exec',
  });
});

test("the policy isolates every driver but raw_exec", () => {
  const isolation = { network: "none", paths: [], writablePaths: [] } as const;
  const isolated = (driver: string) => readDispatch(Buffer.from(JSON.stringify(task({ driver }))), { ...policy, isolation });
  expect(isolated("exec")).toMatchObject({ order: { isolation } });
  expect(isolated("raw_exec")).not.toHaveProperty("order.isolation");
});

test("metadata become variables, which env overrides, and the payload becomes a file", () => {
  const spec = {
    meta: { site: "a", "max-speed": "2" },
    env: { K8S4R_META_SITE: "b" },
    payload: "aGk=",
    dispatchPayload: { file: "in/x" },
  };
  expect(read(task(spec))).toMatchObject({
    order: { env: { K8S4R_META_SITE: "b", K8S4R_META_MAX_SPEED: "2" }, payload: { path: "in/x", base64: "aGk=" } },
  });
});

test.each(["../x", "/etc/x", "a/../x", ".ssh", ""])("a payload is not written to %j", (path) => {
  const dispatch = read(task({ payload: "aGk=", dispatchPayload: { file: path } }));
  expect(dispatch).not.toHaveProperty("order.payload");
});

test("the robot restarts services and system tasks, and no others", () => {
  const restartPolicy = { attempts: 2, interval: "30m", delay: "15s", mode: "fail" };
  const restart = { policy: restartPolicy, count: 3 };
  const status = { attempt: 2, restartCount: 3 };
  expect(read(task({ type: "service", restartPolicy }, status))).toMatchObject({ order: { restart } });
  expect(read(task({ type: "system", restartPolicy }, status))).toMatchObject({ order: { restart } });
  for (const spec of [{ restartPolicy }, { type: "service" }, { type: "service", restartPolicy: { attempts: 0 } }]) {
    expect(read(task(spec, status))).not.toHaveProperty("order.restart");
  }
});

test("a lease and an adopted attempt count only for this attempt and this robot", () => {
  const disconnect = { lostAfter: "2m" };
  const status = { attempt: 3, lease: { attempt: 3 }, adopted: { robot: "r1", attempt: 1 } };
  expect(read(task({ disconnect }, status))).toMatchObject({
    order: { lease: { durationMs: 120_000, graceMs: 5_000 } },
    adopts: 1,
  });
  const recorded = { attempt: 3, lease: { attempt: 3, durationMs: 300_000 } };
  expect(read(task({ disconnect }, recorded))).toMatchObject({ order: { lease: { durationMs: 300_000 } } });
  const other = read(task({ disconnect }, { attempt: 3, lease: { attempt: 2 }, adopted: { robot: "r2", attempt: 1 } }));
  expect(other).not.toHaveProperty("order.lease");
  expect(other).not.toHaveProperty("adopts");
});

test("bare resource numbers are Nomad's: MHz as a share without a limit, and MiB", () => {
  const limitsOf = (resources: object) => {
    const dispatch = read(task({ resources }));
    return typeof dispatch === "object" && "order" in dispatch ? dispatch.order.limits : dispatch;
  };
  expect(limitsOf({ cpu: 100, memory: 128 })).toEqual({ memoryBytes: 128 * 1024 * 1024 });
  expect(limitsOf({ cpu: "100", memory: "128" })).toEqual({ memoryBytes: 128 * 1024 * 1024 });
  expect(limitsOf({ cpu: "2000m", memory: "1k" })).toEqual({ cpuMillis: 2000, memoryBytes: 1000 });
});

test("a task of an original server, which has no attempts, is attempt 0", () => {
  expect(read(task({}, {}))).toMatchObject({ attempt: 0 });
});

test.each([
  [{ driver: "docker", config: { dockerConfig: { image: "x" } } }, /spec\.driver.*docker.*exec, raw_exec, java/],
  [{ driver: "java", config: {} }, /spec\.config\.javaConfig\.jarPath is missing/],
  [{ driver: "java", config: { javaConfig: { jarPath: "x.jar", classpath: ["y"] } } }, /javaConfig\.class is required/],
  [{ driver: "java", config: { javaConfig: { jarPath: "x.jar", class: "-version" } } }, /javaConfig\.class/],
  [{ config: {} }, /spec\.config\.execConfig\.command/],
  [{ config: { execConfig: { command: "x", args: [1] } } }, /args/],
  [{ env: { "a=b": "x" } }, /spec\.env/],
  [{ env: { a: 1 } }, /spec\.env\.a/],
  [{ timeout: "soon" }, /spec\.timeout/],
  [{ killTimeout: "-1s" }, /spec\.killTimeout/],
  [{ resources: { memory: "lots" } }, /spec\.resources\.memory/],
  [{ targetRobot: "r2" }, /r2.*r1/],
  [{ artifacts: [{ getterSource: "https://h/x" }] }, /spec\.artifacts\[0\]\.getterOptions\.checksum is missing/],
  [{ templates: [{ destPath: "x", embeddedTmpl: "{{ key }}" }] }, /spec\.templates\[0\]\.embeddedTmpl: line 1/],
])("a task with %j is rejected with the field's name", (spec, field) => {
  expect(read(task(spec))).toMatchObject({ uid, attempt: 2, problem: expect.stringMatching(field) });
});

test.each(["../..", "..", "", "x", `${uid}/..`, uid.toUpperCase(), 5, null])("the uid %j never becomes a directory", (bad) => {
  expect(read({ action: "create", task: { metadata: { uid: bad } } })).toMatch(/uid/);
  expect(read({ action: "delete", task: { metadata: { uid: bad } } })).toMatch(/uid/);
});

test("parsing never throws", () => {
  fc.assert(fc.property(fc.uint8Array(), (bytes) => typeof readDispatch(bytes, policy) === "string"));
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (spec, status) => {
      expect(read({ action: "create", task: { metadata: { uid }, spec, status } })).toBeDefined();
    }),
  );
});

test("a program's output cannot control a terminal", () => {
  expect(withoutControls("a\u001b[31mb\tc\nd\r\u0007")).toBe("a\ufffd[31mb\tc\nd\ufffd\ufffd");
  const exited = { kind: "exited", reason: "Error", message: "\u001b]0;x", exitCode: 1, finishedAt: 0 } as const;
  expect(JSON.stringify(reportOfExit(exited, { stdout: "\u001b", stderr: "\u0000" }))).not.toMatch(/\\u00/);
});

test("a stricter policy applies to an order that was accepted under an earlier one", () => {
  const url = "https://files.example/map";
  const order = { command: ["/opt/run"] as const, env: {}, user: "nobody", artifacts: [{ url, path: "map" }] };
  const isolation = { network: "none", paths: [], writablePaths: [] } as const;
  const open = { ...policy, artifacts: { ...policy.artifacts, requireChecksum: false } };
  expect(orderProblem(open, order)).toBeUndefined();
  expect(orderProblem(policy, order)).toContain("spec.artifacts[0].getterOptions.checksum is missing");
  expect(orderProblem({ ...open, artifacts: { ...open.artifacts, sources: ["http://"] } }, order)).toContain(
    "spec.artifacts[0].getterSource: https://files.example/map is not allowed",
  );
  expect(orderProblem({ ...open, users: ["robot"] }, order)).toContain('spec.user: "nobody" is not allowed');
  expect(orderProblem({ ...open, commands: ["/usr/"] }, order)).toContain('the program "/opt/run" is not allowed');
  const isolated = { ...open, drivers: ["exec"], isolation };
  expect(orderProblem(isolated, order)).toBe("spec.driver: the robot's policy requires isolation");
  expect(orderProblem({ ...isolated, drivers: ["exec", "raw_exec"] }, order)).toBeUndefined();
  expect(orderProblem(isolated, { ...order, isolation })).toBeUndefined();
  const shared = { ...order, isolation: { ...isolation, network: "shared" as const } };
  expect(underPolicy(isolated, shared).isolation).toEqual(isolation);
  expect(underPolicy(open, shared).isolation).toEqual(shared.isolation);
});

const service = (check: object, portLabel = "web") => ({ services: [{ name: "s", portLabel, checks: [check] }] });

test("checks of services are read, with the port of their service", () => {
  const http = { type: "http", path: "/up", interval: "5s", timeout: "100ms", checkRestart: { limit: 2, grace: "3s" } };
  expect(read(task({ ...service(http), resources: { networks: [{ dynamicPorts: [{ label: "web" }] }] } }))).toMatchObject({
    order: {
      ports: [{ label: "web" }],
      checks: [
        {
          ...{
            name: "s",
            target: { type: "http", port: "web", path: "/up", isSecure: false },
            intervalMs: 5000,
            timeoutMs: 1000,
          },
          restart: { limit: 2, graceMs: 3000, ignoresWarnings: false },
        },
      ],
    },
  });
});

test.each([
  [{ type: "http", path: "/ HTTP/1.1\r\nx: y" }, 'spec.services[0].checks[0].path: "/ HTTP'],
  [{ type: "http", path: "x" }, "spec.services[0].checks[0].path"],
  [{ type: "udp" }, 'spec.services[0].checks[0].type: "udp" must be http, tcp, script or grpc'],
  [{ type: "script" }, "spec.services[0].checks[0].command"],
  [{ type: "script", command: "a", args: ["b\0"] }, "contains a NUL character"],
  [{ type: "script", command: "a", args: [1] }, "spec.services[0].checks[0].args"],
])("the check %j is rejected with the field's name", (check, problem) => {
  expect(read(task(service(check)))).toMatchObject({ problem: expect.stringContaining(problem) });
});

test("a policy restricts checks: scripts to its commands, and others to robots that allow them", () => {
  const of = (more: object, check: object, spec: object = {}) => {
    const message = Buffer.from(JSON.stringify(task({ ...service(check), ...spec })));
    const found = readDispatch(message, { ...policy, ...more });
    return typeof found === "object" && "problem" in found ? found.problem : "accepted";
  };
  const [tcp, script] = [{ type: "tcp" }, { type: "script", command: "/bin/check" }];
  const commands = { commands: ["/opt/run"], checks: false };
  const allowed = { config: { execConfig: { command: "/opt/run" } } };
  expect(of({}, tcp)).toBe("accepted");
  expect(of(commands, tcp, allowed)).toMatch(/allows script checks only/);
  expect(of(commands, script, allowed)).toMatch(/"\/bin\/check" is not allowed/);
  expect(of({ ...commands, commands: ["/opt/run", "/bin/check"] }, script, allowed)).toBe("accepted");
  const isolation = { network: "none" as const, paths: [], writablePaths: [] };
  expect(of({ isolation }, tcp)).toMatch(/does not have the robot's network/);
  expect(of({ isolation }, tcp, { driver: "raw_exec" })).toBe("accepted");
  const order = {
    command: ["/opt/run"] as const,
    env: {},
    checks: [{ ...{ name: "c", target: { type: "tcp" as const, port: "1" } }, intervalMs: 1000, timeoutMs: 1000 }],
  };
  expect(orderProblem({ ...policy, checks: false }, order)).toMatch(/allows script checks only/);
});
