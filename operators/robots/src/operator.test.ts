import { statSync } from "node:fs";
import { Event } from "@keelson/api-machinery/kinds";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { clusterRulesOf } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { TaskGroup } from "./api/taskgroup.ts";
import { joinTokenFile } from "./identity/join-token.ts";
import { Secret } from "./api/secret.ts";
import { sha256Hex } from "./identity/secret.ts";
import { robots as robotsOperator } from "./operator.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import { connectScriptedAgent, type ScriptedAgent } from "./testing/scripted-agent.ts";

let robots: RobotsEnvironment;
let client: Client;

beforeEach(async () => {
  robots = await RobotsEnvironment.start();
  client = robots.client;
});

afterEach(() => robots[Symbol.asyncDispose]());

async function robot(robotId: string, labels: Record<string, string> = { env: "demo" }): Promise<ScriptedAgent> {
  const agent = await robots.connect({ robotId, labels });
  await agent.register();
  return agent;
}

/** Runs a task to completion. */
async function complete(agent: ScriptedAgent, name: string): Promise<void> {
  const { task } = await agent.dispatched((message) => message.action === "create" && message.task.metadata.name === name);
  const of = { uid: task.metadata.uid ?? "", attempt: task.status?.attempt ?? 0 };
  await agent.report({ ...of, seq: 1 }, "running");
  await agent.report({ ...of, seq: 2 }, "completed", { exitCode: 0, logsStdout: "hi\n" });
}

const task = (name: string, spec: Partial<Task["spec"]> = {}) => ({
  metadata: { name, namespace },
  spec: { name, driver: "raw_exec" as const, config: { execConfig: { command: "/bin/true" } }, ...spec },
});

const hello = {
  metadata: { name: "hello", namespace },
  spec: {
    name: "hello",
    robotSelector: { env: "demo" },
    taskGroups: [
      {
        name: "workers",
        count: 3,
        tasks: [{ name: "run", driver: "exec" as const, config: { execConfig: { command: "/bin/true" } } }],
      },
      {
        name: "check",
        count: 1,
        tasks: [{ name: "look", driver: "exec" as const, config: { execConfig: { command: "/bin/true" } } }],
      },
    ],
  },
};

it("rejects --mqtt-require-tls with an external broker", async () => {
  await robots.stopOperator();
  const flags = { "mqtt-url": "mqtts://127.0.0.1:1", "mqtt-require-tls": true } as const;
  await expect(robots.startOperator({ flags })).rejects.toThrow("configure the broker of --mqtt-url to require TLS");
});

describe("the robots operator", () => {
  it("runs a Job to completion through groups, tasks and robots", async () => {
    const [one, two] = [await robot("robot-001"), await robot("robot-002")];
    for (const id of ["robot-001", "robot-002"]) await watched(client, Robot, id, (each) => each?.status?.phase === "Online");
    await client.create(Job, hello);
    const seen = new Set<string>();
    const work = (agent: ScriptedAgent, count: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, index) => {
          const { task: dispatched } = await agent.dispatched((message) => agent.dispatches.indexOf(message) === index);
          seen.add(dispatched.metadata.name ?? "");
          await complete(agent, dispatched.metadata.name ?? "");
        }),
      );
    await Promise.all([work(one, 2), work(two, 2)]);
    const job = await watched(client, Job, "hello", (each) => each?.status?.state === "completed");
    expect([...seen].sort()).toEqual([
      "hello-check-look-0",
      "hello-workers-run-0",
      "hello-workers-run-1",
      "hello-workers-run-2",
    ]);
    expect(job?.status).toMatchObject({
      status: "completed",
      totalTasks: 4,
      succeededTasks: 4,
      failedTasks: 0,
      runningTasks: 0,
    });
    const groups = await client.list(TaskGroup, { namespace, labelSelector: "job=hello" });
    expect(groups.items.map((group) => [group.metadata.name, group.status?.state])).toEqual([
      ["hello-check", "completed"],
      ["hello-workers", "completed"],
    ]);
    const tasks = await client.list(Task, { namespace, labelSelector: "job=hello,taskgroup=hello-workers,taskindex=1" });
    expect(tasks.items[0]?.status).toMatchObject({
      state: "completed",
      exitCode: 0,
      logsStdout: "hi\n",
      attempt: 1,
      restartCount: 0,
    });
  });

  it("generates the join token once, readable by its owner only, and keeps it across a restart", async () => {
    expect(statSync(joinTokenFile(robots.dataDir)).mode & 0o777).toBe(0o600);
    await robots.stopOperator();
    await robots.startOperator();
    const secret = await client.get(Secret, { namespace, name: "robot-join-token" });
    expect(Buffer.from(secret.data?.token ?? "", "base64").toString()).toBe(robots.token);
  });

  it("responds to a registration once the robot is approved (Flow 1, step 6)", async () => {
    const agent = await robot("robot-001");
    expect(await agent.responded()).toEqual({
      success: true,
      message: "Robot registered",
      robotId: "robot-001",
      labels: { env: "demo" },
    });
  });

  it("says why a task waits and schedules it when a robot appears (B1, B2)", async () => {
    await client.create(Task, task("alone", { robotSelector: { env: "prod" } }));
    const waiting = await watched(client, Task, "alone", (each) => each?.status?.state === "pending");
    expect(waiting?.status?.message).toBe("no robot fits: there are no robots in this namespace");
    await robot("robot-001");
    await watched(
      client,
      Task,
      "alone",
      (each) => each?.status?.message === "0/1 robots fit: 1 not matching robotSelector env=prod",
    );
    const right = await robot("robot-002", { env: "prod" });
    await complete(right, "alone");
    const done = await watched(client, Task, "alone", (each) => each?.status?.state === "completed");
    expect(done?.spec.targetRobot).toBe("robot-002");
    expect(done?.status?.conditions?.find((condition) => condition.type === "Scheduled")?.status).toBe("True");
  });

  it("spreads tasks that are created at the same time over the robots", async () => {
    await robot("robot-001");
    await robot("robot-002");
    for (const id of ["robot-001", "robot-002"]) await watched(client, Robot, id, (each) => each?.status?.phase === "Online");
    const names = Array.from({ length: 8 }, (_, index) => `t-${index}`);
    await Promise.all(names.map((name) => client.create(Task, task(name))));
    const bound = await Promise.all(
      names.map((name) => watched(client, Task, name, (each) => each?.status?.state === "dispatching")),
    );
    const countOf = (robotId: string): number => bound.filter((each) => each?.spec.targetRobot === robotId).length;
    expect([countOf("robot-001"), countOf("robot-002")]).toEqual([4, 4]);
  });

  it("dispatches the same attempt again to a robot that reconnects", async () => {
    const agent = await robot("robot-001");
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Online");
    await client.create(Task, task("lost"));
    await agent.dispatched();
    await agent.leave(false);
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Offline");
    const again = await robot("robot-001");
    const { task: dispatched } = await again.dispatched();
    expect(dispatched.status?.attempt).toBe(1);
    await complete(again, "lost");
    await watched(client, Task, "lost", (each) => each?.status?.state === "completed");
  });

  it("says on the Task, its group and its Job since when a lost robot's work is unknown, until the robot is back", async () => {
    const agent = await robot("robot-001");
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Online");
    await client.create(Job, { ...hello, spec: { ...hello.spec, taskGroups: hello.spec.taskGroups.slice(1) } });
    const { task: dispatched } = await agent.dispatched();
    await agent.report({ uid: dispatched.metadata.uid ?? "", attempt: 1, seq: 1 }, "running");
    await watched(client, Task, "hello-check-look-0", (each) => each?.status?.state === "running");
    await agent.leave(false);
    const unknown = /unknown since .* stopped reporting/;
    const task = await watched(client, Task, "hello-check-look-0", (each) => each?.status?.reason === "RobotNotReporting");
    expect(task?.status?.message).toMatch(/^unknown since .*: robot-001: the robot's agent is not connected; not moved/);
    await watched(client, TaskGroup, "hello-check", (each) => unknown.test(each?.status?.statusDescription ?? ""));
    await watched(client, Job, "hello", (each) => unknown.test(each?.status?.statusDescription ?? ""));
    await robot("robot-001");
    await watched(client, Task, "hello-check-look-0", (each) => each?.status?.reason === "RobotReporting");
    await watched(client, Job, "hello", (each) => each?.status?.lostTasks === undefined);
  });

  it("keeps a deleted task until its robot has removed it", async () => {
    const agent = await robot("robot-001");
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Online");
    await client.create(Task, task("gone"));
    const { task: dispatched } = await agent.dispatched();
    const of = { uid: dispatched.metadata.uid ?? "", attempt: 1 };
    await agent.report({ ...of, seq: 1 }, "running");
    await client.delete(Task, { namespace, name: "gone" });
    await agent.dispatched((message) => message.action === "delete" && message.task.metadata.uid === of.uid);
    expect((await client.get(Task, { namespace, name: "gone" })).metadata.deletionTimestamp).toBeDefined();
    await agent.report({ ...of, seq: 2 }, "deleted");
    await watched(client, Task, "gone", (each) => each === undefined);
    expect(await agent.acknowledged((ack) => ack.seq === 2)).toEqual({ taskUid: of.uid, attempt: 1, seq: 2 });
  });

  it("ends an attempt whose robot has lost it, once the robot has confirmed that, and restarts it by its policy", async () => {
    const agent = await robot("robot-001");
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Online");
    await client.create(Task, task("forgotten", { restartPolicy: { attempts: 1, delay: "0s" } }));
    const { task: dispatched } = await agent.dispatched();
    const of = { uid: dispatched.metadata.uid ?? "", attempt: 1 };
    await agent.report({ ...of, seq: 7 }, "running");
    await watched(client, Task, "forgotten", (each) => each?.status?.state === "running");
    await agent.register({ tasks: [{ taskUid: of.uid, attempt: 1 }] });
    await agent.register({ tasks: [] });
    await agent.dispatched((message) => message.action === "delete" && message.task.status?.attempt === 1);
    expect((await client.get(Task, { namespace, name: "forgotten" })).status?.state).toBe("running");
    await agent.report({ ...of, seq: 1 }, "deleted", { message: "The robot does not have the task" });
    await agent.dispatched((message) => message.action === "create" && message.task.status?.attempt === 2);
    expect(agent.dispatches.map(({ action }) => action)).toEqual(["create", "delete", "create"]);
  });

  it("restarts a failed attempt by the restart policy and fails when it is used up", async () => {
    const agent = await robot("robot-001");
    await client.create(Task, task("flaky", { restartPolicy: { attempts: 1, interval: "1h", delay: "0s", mode: "fail" } }));
    for (const attempt of [1, 2]) {
      const { task: dispatched } = await agent.dispatched((message) => message.task.status?.attempt === attempt);
      const of = { uid: dispatched.metadata.uid ?? "", attempt };
      await agent.report({ ...of, seq: 1 }, "running");
      await agent.report({ ...of, seq: 2 }, "failed", { exitCode: 3, message: "exit code 3" });
    }
    const failed = await watched(client, Task, "flaky", (each) => each?.status?.state === "failed");
    expect(failed?.status).toMatchObject({ attempt: 2, restartCount: 1, exitCode: 3 });
    expect(failed?.status?.message).toBe("exit code 3 (1 of 1 restarts within 1h are used up)");
  });

  const eventWith = async (reason: string): Promise<void> => {
    await expect
      .poll(async () => (await client.list(Event, { namespace })).items.map((event) => event.reason))
      .toContain(reason);
  };

  it("binds a robot to the credential of its agent, so that the join token cannot impersonate it", async () => {
    const credentialSha256 = sha256Hex("credential of robot-001");
    const agent = await robots.connect({ robotId: "robot-001" });
    await agent.register({ credentialSha256 });
    await agent.responded((response) => response.isCredentialBound === true);
    await agent.leave();
    await expect(robot("robot-001")).rejects.toThrow(/Not authorized|closed/i);
    await eventWith("WrongCredential");
    const again = await robots.connect({ robotId: "robot-001", password: "credential of robot-001" });
    await again.register({ credentialSha256 });
    expect(await again.responded()).toMatchObject({ success: true });
  });

  it("records an event about a robot with a wrong join token", async () => {
    await expect(connectScriptedAgent({ url: robots.url, robotId: "robot-007", token: "wrong" })).rejects.toThrow();
    await eventWith("WrongJoinToken");
  });

  it("records an event and warns both agents if two of them use the same id", async () => {
    const one = await robot("robot-001");
    await one.register({ instanceId: "a", deviceInfo: { hostname: "h1" } });
    // The robot is approved: until then, registrations are not answered.
    await one.responded();
    const two = await robot("robot-001");
    await two.register({ instanceId: "b", deviceInfo: { hostname: "h2" } });
    const back = await robot("robot-001");
    await back.register({ instanceId: "a", deviceInfo: { hostname: "h1" } });
    const { warning } = await back.responded((response) => response.warning !== undefined);
    expect(warning).toBe("two agents use the id robot-001 and displace each other, on h2 and h1; stop one of them");
    await eventWith("DuplicateAgent");
  });

  it("restarts a service whose program exits with 0", async () => {
    const agent = await robot("robot-001");
    const restartPolicy = { attempts: 1, interval: "1h", delay: "0s", mode: "fail" as const };
    await client.create(Task, task("server", { type: "service", restartPolicy }));
    await complete(agent, "server");
    const { task: again } = await agent.dispatched((message) => message.task.status?.attempt === 2);
    await agent.report({ uid: again.metadata.uid ?? "", attempt: 2, seq: 1 }, "running");
    const restarted = await watched(client, Task, "server", (each) => each?.status?.state === "running");
    expect(restarted?.status).toMatchObject({ attempt: 2, restartCount: 1 });
  });

  it("runs a system Job once on every robot that matches, including one that joins later", async () => {
    await robot("robot-001");
    await robot("robot-002");
    await robot("robot-009", { env: "other" });
    for (const id of ["robot-001", "robot-002"]) await watched(client, Robot, id, (each) => each?.status?.phase === "Online");
    const taskGroups = hello.spec.taskGroups.slice(1);
    await client.create(Job, { ...hello, spec: { ...hello.spec, type: "system", taskGroups } });
    for (const id of ["robot-001", "robot-002"]) {
      await watched(client, Task, `hello-check-look-${id}`, (each) => each?.spec.targetRobot === id);
    }
    const late = await robot("robot-003");
    await complete(late, "hello-check-look-robot-003");
    const tasks = await client.list(Task, { namespace, labelSelector: "job=hello" });
    expect(tasks.items.map(({ metadata }) => metadata.name)).not.toContain("hello-check-look-robot-009");
    expect((await watched(client, Job, "hello", (each) => each?.status?.totalTasks === 3))?.status?.state).not.toBe(
      "completed",
    );
  });

  it("fails a task that its robot can never run, without using up the restart policy", async () => {
    const agent = await robot("robot-001");
    await client.create(Task, task("hopeless", { restartPolicy: { attempts: 3, delay: "0s" } }));
    const { task: dispatched } = await agent.dispatched();
    const of = { uid: dispatched.metadata.uid ?? "", attempt: 1 };
    await agent.report({ ...of, seq: 1 }, "failed", { event: "StartFailed", message: "no such user", permanent: true });
    const failed = await watched(client, Task, "hopeless", (each) => each?.status?.state === "failed");
    expect(failed?.status).toMatchObject({ attempt: 1, restartCount: 0, message: "no such user" });
  });

  it("waits for a robot with the driver", async () => {
    const agent = await robots.connect({ robotId: "robot-001" });
    await agent.register({ drivers: ["exec"] });
    await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Online");
    await client.create(Task, task("container", { driver: "docker" }));
    const waiting = await watched(client, Task, "container", (each) => each?.status?.state === "pending");
    expect(waiting?.status?.message).toBe("0/1 robots fit: 1 without the driver docker");
  });

  it("needs no permission that its rules do not grant", async () => {
    await robots.stopOperator();
    const role = { apiVersion: "rbac.authorization.k8s.io/v1", metadata: { name: "robots" } };
    const resource = (kind: string, plural: string) =>
      ({ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" }) as const;
    await client.create(resource("ClusterRole", "clusterroles"), {
      ...role,
      kind: "ClusterRole",
      rules: clusterRulesOf(robotsOperator),
    } as never);
    await client.create(resource("ClusterRoleBinding", "clusterrolebindings"), {
      ...role,
      kind: "ClusterRoleBinding",
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "robots" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "robots-operator" }],
    } as never);
    // Deleted, so that this user has to create it.
    await client.delete(Secret, { namespace, name: "robot-join-token" });
    const user = { username: "robots-operator", groups: ["system:authenticated"] };
    const limited = createClient({ transport: robots.environment.transport(user), fieldManager: "robots" });
    const denied: string[] = [];
    const log: Logger = {
      ...silentLogger,
      child: () => log,
      error: (fields, message) => denied.push(`${message} ${JSON.stringify(fields)}`),
      warn: (fields, message) => /forbidden|cannot/.test(message) && denied.push(`${message} ${JSON.stringify(fields)}`),
    };
    await robots.startOperator({ client: limited, logger: log });
    const agent = await robot("robot-001");
    await client.create(Job, { ...hello, spec: { ...hello.spec, taskGroups: hello.spec.taskGroups.slice(1) } });
    await complete(agent, "hello-check-look-0");
    await watched(client, Job, "hello", (each) => each?.status?.state === "completed");
    await client.delete(Task, { namespace, name: "hello-check-look-0" });
    const { task: dispatched } = await agent.dispatched((message) => message.action === "delete");
    await agent.report({ uid: dispatched.metadata.uid ?? "", attempt: 1, seq: 3 }, "deleted");
    await watched(client, Task, "hello-check-look-0", (each) => each === undefined);
    const service = { ...hello.spec, name: "serve", type: "service" as const, taskGroups: hello.spec.taskGroups.slice(1) };
    await client.create(Job, { metadata: { name: "serve", namespace }, spec: service });
    await watched(client, Job, "serve", (each) => each?.status?.rollout?.stableRevision === 1);
    const renamed = service.taskGroups.map((group) => ({ ...group, name: "renamed" }));
    await client.patch(Job, { namespace, name: "serve" }, { type: "merge", body: { spec: { taskGroups: renamed } } });
    const first = await agent.dispatched(({ task }) => task.metadata.name === "serve-renamed-look-0");
    await agent.report({ uid: first.task.metadata.uid ?? "", attempt: 1, seq: 1 }, "running");
    await watched(client, TaskGroup, "serve-renamed", (each) => each?.status?.rollout?.updated === 1);
    expect(denied).toEqual([]);
  });

  it("has a robot remove a task that no longer exists", async () => {
    const agent = await robot("robot-001");
    const uid = "00000000-0000-4000-8000-000000000001";
    await agent.report({ uid, attempt: 1, seq: 5 }, "running");
    expect((await agent.dispatched()).action).toBe("delete");
    expect(await agent.acknowledged()).toEqual({ taskUid: uid, attempt: 1, seq: 5 });
  });
});
