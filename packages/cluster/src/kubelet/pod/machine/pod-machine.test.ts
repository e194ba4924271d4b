import { describe, expect, test } from "vitest";
import { nextWake, stepPod } from "./pod-machine.ts";
import { type PodEvent } from "./pod-state.ts";
import { podStatus } from "../status/pod-status.ts";
import { restorePodState } from "../restore.ts";
import { main, podOf, SimulatedPod } from "../testing/simulated-pod.ts";

describe("restarts", () => {
  test.each([
    ["Always", 0, "Running"],
    ["Always", 1, "Running"],
    ["OnFailure", 0, "Succeeded"],
    ["OnFailure", 1, "Running"],
    ["Never", 0, "Succeeded"],
    ["Never", 1, "Failed"],
  ] as const)("with policy %s and exit code %d the Pod is %s", (restartPolicy, exitCode, phase) => {
    const simulated = new SimulatedPod(podOf({ restartPolicy })).started().exited(exitCode);
    expect(simulated.status.phase).toBe(phase);
    expect(simulated.actions).toEqual(phase === "Running" ? ["start main"] : []);
  });

  test("are immediate the first time, then delayed by 10 s, 20 s, 40 s up to 5 min", () => {
    const simulated = new SimulatedPod(podOf());
    const pauses: number[] = [];
    for (let crash = 0; crash < 8; crash++) {
      simulated.started().exited(1);
      const wake = nextWake(simulated.state);
      pauses.push(wake === undefined ? 0 : wake - simulated.now);
      if (wake !== undefined) simulated.wait(wake - simulated.now);
    }
    expect(pauses.map((ms) => ms / 1000)).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  });

  test("keep their delays, and probes their periods, when the wall clock is set", () => {
    const hour = 3_600_000;
    const simulated = new SimulatedPod(
      podOf({ containers: [{ ...main, readinessProbe: { tcpSocket: { port: 1 }, periodSeconds: 5 } }] }),
    );
    simulated.started().exited(1);
    const at = (wall: number): PodEvent => ({ kind: "started", name: "main", attempt: 1, at: wall });
    simulated.apply(at(simulated.now + hour));
    expect(simulated.actions).toEqual(["probe main"]);
    const finished = {
      attempt: 1,
      exitCode: 1,
      reason: "Error",
      message: "",
      startedAt: simulated.now + hour,
      finishedAt: simulated.now - hour,
    };
    simulated.apply({ kind: "exited", name: "main", finished });
    expect((nextWake(simulated.state) ?? 0) - simulated.now).toBe(10_000);
    expect(simulated.record("main").failures).toBe(2);
  });

  test("show CrashLoopBackOff with the last exit, and count only started attempts", () => {
    const simulated = new SimulatedPod(podOf()).started().exited(1).started().exited(1);
    const [status] = simulated.status.containerStatuses ?? [];
    expect(status?.state?.waiting?.reason).toBe("CrashLoopBackOff");
    expect(status?.state?.waiting?.message).toContain("back-off 10s");
    expect(status?.lastState?.terminated?.exitCode).toBe(1);
    expect(status?.restartCount).toBe(1);
  });

  test("reset the backoff after running for ten minutes", () => {
    const simulated = new SimulatedPod(podOf()).started().exited(1).started().wait(600_000).exited(1);
    expect(simulated.actions).toEqual(["start main"]);
  });
});

describe("termination", () => {
  test("keeps a terminal phase that another client wrote, and stops the containers", () => {
    const simulated = new SimulatedPod(podOf()).started();
    const { pod } = simulated.state;
    const status = { phase: "Failed" as const, reason: "NodeLost", message: "gone" };
    simulated.apply({ kind: "changed", pod: { ...pod, status: { ...pod.status, ...status } } });
    expect(simulated.actions).toEqual(["stop main"]);
    expect(simulated.status).toMatchObject(status);
    expect(simulated.exited(0).actions).toEqual([]);
    expect(simulated.status).toMatchObject(status);
    expect(simulated.deleted(0).actions).toEqual(["release"]);
  });

  test("of a Pod whose phase another client ended before it started starts nothing", () => {
    const simulated = new SimulatedPod({ ...podOf(), status: { phase: "Succeeded" } });
    expect(simulated.actions).toEqual([]);
    expect(simulated.record("main").current.kind).toBe("waiting");
    expect(simulated.status.phase).toBe("Succeeded");
  });

  test("stops with the grace period of the deletion, and releases the object once everything has exited", () => {
    const simulated = new SimulatedPod(podOf()).started().deleted(7);
    expect(simulated.effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 7_000 });
    expect(simulated.exited(143).actions).toEqual(["release"]);
    expect(simulated.apply({ kind: "tick" }).actions).toEqual([]);
  });

  test("is shortened by a second deletion with a shorter grace period, never extended", () => {
    const simulated = new SimulatedPod(podOf()).started().deleted(30);
    expect(simulated.deleted(1).effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 1_000 });
    expect(simulated.deleted(60).actions).toEqual([]);
  });

  test("stops a program that was starting when the Pod was deleted", () => {
    const simulated = new SimulatedPod(podOf()).deleted(5);
    expect(simulated.actions).toEqual([]);
    expect(simulated.started().actions).toEqual(["stop main"]);
  });

  test("fails the Pod at activeDeadlineSeconds", () => {
    const simulated = new SimulatedPod(podOf({ activeDeadlineSeconds: 10 })).started();
    expect(nextWake(simulated.state)).toBe(simulated.now + 10_000);
    expect(simulated.wait(10_000).actions).toEqual(["stop main"]);
    expect(simulated.exited(143).status).toMatchObject({ phase: "Failed", reason: "DeadlineExceeded" });
  });

  test("of a start shows the reason and retries on the next change", () => {
    const simulated = new SimulatedPod(podOf());
    const reason = "CreateContainerConfigError";
    simulated.apply({ kind: "refused", name: "main", attempt: 0, reason, message: "why" });
    expect(simulated.status.containerStatuses?.[0]?.state?.waiting).toEqual({ reason, message: "why" });
    expect(simulated.apply({ kind: "changed", pod: simulated.state.pod }).actions).toEqual(["start main"]);
    // Shown until the retry has succeeded or failed.
    expect(simulated.status.containerStatuses?.[0]?.state?.waiting).toEqual({ reason, message: "why" });
    expect(simulated.started().status.containerStatuses?.[0]?.state?.running).toBeDefined();
  });
});

describe("an image that cannot be pulled", () => {
  const refuse = (simulated: SimulatedPod, reason = "ErrImagePull"): SimulatedPod =>
    simulated.apply({ kind: "refused", name: "main", attempt: 0, reason, message: "why" });

  test("is retried after 10 s, 20 s, 40 s up to 5 min, regardless of Pod changes", () => {
    const simulated = new SimulatedPod(podOf());
    const pauses: number[] = [];
    for (let failure = 0; failure < 7; failure++) {
      refuse(simulated);
      expect(simulated.apply({ kind: "changed", pod: simulated.state.pod }).actions).toEqual([]);
      const pause = (nextWake(simulated.state) ?? 0) - simulated.now;
      pauses.push(pause / 1000);
      expect(simulated.wait(pause).actions).toEqual(["start main"]);
    }
    expect(pauses).toEqual([10, 20, 40, 80, 160, 300, 300]);
  });

  test("shows ErrImagePull, then ImagePullBackOff with the reason, and nothing once it runs", () => {
    const simulated = refuse(new SimulatedPod(podOf()));
    const waiting = (): unknown => simulated.status.containerStatuses?.[0]?.state?.waiting;
    expect(waiting()).toEqual({ reason: "ErrImagePull", message: "why" });
    refuse(simulated.wait(10_000));
    expect(waiting()).toMatchObject({ reason: "ImagePullBackOff", message: expect.stringMatching(/ErrImagePull: why$/) });
    simulated.wait(20_000).started().exited(1);
    expect(refuse(simulated.apply({ kind: "tick" })).record("main").pullFailures).toBeUndefined();
  });
});

describe("after a restart of the kubelet", () => {
  test("a running program is neither restarted nor counted", () => {
    const state = restorePodState(
      podOf(),
      [{ container: "main", attempt: 2, state: { kind: "running", pid: 1, startedAt: 5 } }],
      10,
    );
    const { effects } = stepPod({ ...state, setup: "done" }, { kind: "tick" }, 10);
    expect(effects).toEqual([]);
    expect(podStatus(state, { hostIP: "", podIP: "" }, 10).containerStatuses?.[0]?.restartCount).toBe(2);
  });

  test("an exit without a supervisor is reported with its exit code", () => {
    const exited = { kind: "exited", reason: "Error", message: "", exitCode: 7, startedAt: 5, finishedAt: 8 } as const;
    const state = restorePodState(podOf({ restartPolicy: "Never" }), [{ container: "main", attempt: 0, state: exited }], 10);
    const step = stepPod({ ...state, setup: "done" }, { kind: "tick" }, 10);
    expect(podStatus(step.state, { hostIP: "", podIP: "" }, 10)).toMatchObject({
      phase: "Failed",
      containerStatuses: [{ state: { terminated: { exitCode: 7, reason: "Error" } } }],
    });
  });

  test("a program that was being started and never ran is started again, whatever the restart policy", () => {
    const message = "the supervisor terminated before the program was released; it never ran";
    const lost = { kind: "exited", reason: "Lost", message, exitCode: -1, finishedAt: 8 } as const;
    const effectsOf = (exit: Partial<typeof lost>, pod = podOf({ restartPolicy: "Never" })) => {
      const programs = [{ container: "main", attempt: 0, state: { ...lost, ...exit } }];
      return stepPod({ ...restorePodState(pod, programs, 10), setup: "done" }, { kind: "tick" }, 10).effects;
    };
    expect(effectsOf({})).toEqual([{ kind: "start", name: "main", attempt: 1 }]);
    const ran = effectsOf({ message: "its shim was killed" as typeof message });
    expect(ran.filter(({ kind }) => kind === "start")).toEqual([]);
    const failed = { ...podOf({ restartPolicy: "Never" }), status: { phase: "Failed" as const } };
    expect(effectsOf({}, failed).filter(({ kind }) => kind === "start")).toEqual([]);
  });

  test("a terminated Pod starts nothing", () => {
    const ended = { ...podOf(), status: { phase: "Succeeded" as const, startTime: "2026-01-01T00:00:00Z" } };
    expect(stepPod(restorePodState(ended, [], 10), { kind: "tick" }, 10).effects).toEqual([]);
  });
});

test("an evicted Pod is stopped within a second and fails, whatever its restart policy", () => {
  const pod = new SimulatedPod(podOf({ terminationGracePeriodSeconds: 600 })).started();
  const message = 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". ';
  pod.apply({ kind: "evicted", message });
  expect(pod.effects).toContainEqual({ kind: "event", type: "Warning", reason: "Evicted", note: message });
  expect(pod.effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 1_000 });
  expect(pod.status).toMatchObject({ phase: "Running", reason: "Evicted", message });
  pod.apply({ kind: "evicted", message: "again" });
  expect(pod.actions).toEqual([]);
  pod.exited(0);
  expect(pod.status).toMatchObject({ phase: "Failed", reason: "Evicted", message });
  expect(pod.status.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
    ...{ status: "True", reason: "TerminationByKubelet", message },
  });
  expect(pod.actions).toEqual([]);
});

test("a restarted kubelet finishes an eviction", () => {
  const status = { phase: "Running", reason: "Evicted", message: "too much" } as const;
  const pod = { ...podOf(), status };
  const running = { kind: "running", pid: 1, startedAt: 1 } as const;
  const state = restorePodState(pod, [{ container: "main", attempt: 0, state: running }], 1_000_000);
  const step = stepPod(state, { kind: "tick" }, 1_000_000);
  expect(step.effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 0 });
  expect(restorePodState({ ...pod, status: { ...status, phase: "Failed" } }, [], 1_000_000)).toMatchObject({
    ...{ end: "Failed", failure: { reason: "Evicted", message: "too much" } },
  });
});
