import type { Container, PodObject, PodSpec } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { nextWake, stepPod } from "./pod-machine.ts";
import { newPodState, type PodEffect, type PodEvent, type PodState } from "./pod-state.ts";
import { podStatus } from "./pod-status.ts";
import { restorePodState } from "./restore.ts";

const main: Container = { name: "main", image: "x", command: ["run"] };

function podOf(spec: Partial<PodSpec> = {}, metadata: PodObject["metadata"] = {}): PodObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", uid: "u", ...metadata },
    spec: { containers: [main], ...spec },
  };
}

/** Plays events into a Pod's state and keeps the effects of the last one. */
class Played {
  state: PodState;
  effects: readonly PodEffect[] = [];
  now = 1_000_000;

  constructor(pod: PodObject) {
    this.state = newPodState(pod, this.now);
    this.play({ kind: "tick" });
    this.play({ kind: "prepared" });
  }

  play(event: PodEvent): this {
    const step = stepPod(this.state, event, this.now);
    this.state = step.state;
    this.effects = step.effects;
    return this;
  }

  started(name = "main"): this {
    return this.play({ kind: "started", name, attempt: this.record(name).attempt, at: this.now });
  }

  exited(exitCode: number, name = "main"): this {
    const { attempt, current } = this.record(name);
    const startedAt = current.kind === "running" ? current.startedAt : this.now;
    const reason = exitCode === 0 ? "Completed" : "Error";
    return this.play({
      kind: "exited",
      name,
      finished: { attempt, exitCode, reason, message: "", startedAt, finishedAt: this.now },
    });
  }

  probed(probe: "startup" | "liveness" | "readiness", problem?: string): this {
    const { attempt } = this.record("main");
    return this.play({ kind: "probed", name: "main", attempt, probe, ...(problem === undefined ? {} : { problem }) });
  }

  wait(ms: number): this {
    this.now += ms;
    return this.play({ kind: "tick" });
  }

  deleted(seconds: number): this {
    const { pod } = this.state;
    const metadata = { ...pod.metadata, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: seconds };
    return this.play({ kind: "changed", pod: { ...pod, metadata } });
  }

  record(name: string): PodState["containers"][number] {
    const found = this.state.containers.find((each) => each.name === name);
    if (found === undefined) throw new Error(`no container ${name}`);
    return found;
  }

  get does(): readonly string[] {
    return this.effects
      .filter(({ kind }) => kind !== "event")
      .map((effect) => ("name" in effect ? `${effect.kind} ${effect.name}` : effect.kind));
  }

  get status(): ReturnType<typeof podStatus> {
    return podStatus(this.state, { hostIP: "127.0.0.1", podIP: "127.64.0.1" }, this.now);
  }

  condition(type: string): string | undefined {
    return this.status.conditions?.find((condition) => condition.type === type)?.status;
  }
}

describe("restarts", () => {
  test.each([
    ["Always", 0, "Running"],
    ["Always", 1, "Running"],
    ["OnFailure", 0, "Succeeded"],
    ["OnFailure", 1, "Running"],
    ["Never", 0, "Succeeded"],
    ["Never", 1, "Failed"],
  ] as const)("with policy %s and exit code %d the Pod is %s", (restartPolicy, exitCode, phase) => {
    const played = new Played(podOf({ restartPolicy })).started().exited(exitCode);
    expect(played.status.phase).toBe(phase);
    expect(played.does).toEqual(phase === "Running" ? ["start main"] : []);
  });

  test("are immediate the first time, then delayed by 10 s, 20 s, 40 s up to 5 min", () => {
    const played = new Played(podOf());
    const pauses: number[] = [];
    for (let crash = 0; crash < 8; crash++) {
      played.started().exited(1);
      const wake = nextWake(played.state);
      pauses.push(wake === undefined ? 0 : wake - played.now);
      if (wake !== undefined) played.wait(wake - played.now);
    }
    expect(pauses.map((ms) => ms / 1000)).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  });

  test("keep their delays, and probes their periods, when the wall clock is set", () => {
    const hour = 3_600_000;
    const played = new Played(
      podOf({ containers: [{ ...main, readinessProbe: { tcpSocket: { port: 1 }, periodSeconds: 5 } }] }),
    );
    played.started().exited(1);
    const at = (wall: number): PodEvent => ({ kind: "started", name: "main", attempt: 1, at: wall });
    played.play(at(played.now + hour));
    expect(played.does).toEqual(["probe main"]);
    const finished = {
      attempt: 1,
      exitCode: 1,
      reason: "Error",
      message: "",
      startedAt: played.now + hour,
      finishedAt: played.now - hour,
    };
    played.play({ kind: "exited", name: "main", finished });
    expect((nextWake(played.state) ?? 0) - played.now).toBe(10_000);
    expect(played.record("main").failures).toBe(2);
  });

  test("show CrashLoopBackOff with the last exit, and count only started attempts", () => {
    const played = new Played(podOf()).started().exited(1).started().exited(1);
    const [status] = played.status.containerStatuses ?? [];
    expect(status?.state?.waiting?.reason).toBe("CrashLoopBackOff");
    expect(status?.state?.waiting?.message).toContain("back-off 10s");
    expect(status?.lastState?.terminated?.exitCode).toBe(1);
    expect(status?.restartCount).toBe(1);
  });

  test("reset the backoff after running for ten minutes", () => {
    const played = new Played(podOf()).started().exited(1).started().wait(600_000).exited(1);
    expect(played.does).toEqual(["start main"]);
  });
});

describe("init containers", () => {
  const initContainers = [
    { ...main, name: "one" },
    { ...main, name: "two" },
  ];

  test("run one by one before the others", () => {
    const played = new Played(podOf({ initContainers }));
    expect(played.does).toEqual(["start one"]);
    expect(played.condition("Initialized")).toBe("False");
    expect(played.started("one").exited(0, "one").does).toEqual(["start two"]);
    expect(played.started("two").exited(0, "two").does).toEqual(["start main"]);
    expect(played.condition("Initialized")).toBe("True");
  });

  test("fail the Pod permanently with restartPolicy Never", () => {
    const played = new Played(podOf({ initContainers, restartPolicy: "Never" })).started("one").exited(1, "one");
    expect(played.status.phase).toBe("Failed");
    expect(played.does).toEqual([]);
  });

  test("a sidecar runs beside the main containers and stops after them", () => {
    const side = { ...main, name: "side", restartPolicy: "Always" };
    const played = new Played(podOf({ initContainers: [side], restartPolicy: "Never" }));
    expect(played.started("side").does).toEqual(["start main"]);
    expect(played.started().exited(0).does).toEqual(["stop side"]);
    expect(played.exited(143, "side").status.phase).toBe("Succeeded");
  });
});

describe("probes", () => {
  const probe = { exec: { command: ["true"] }, periodSeconds: 5, failureThreshold: 2 };

  test("a readiness probe sets readiness and never restarts", () => {
    const played = new Played(podOf({ containers: [{ ...main, readinessProbe: probe }] })).started();
    expect(played.does).toEqual(["probe main"]);
    expect(played.condition("Ready")).toBe("False");
    expect(played.probed("readiness").condition("Ready")).toBe("True");
    expect(played.wait(5_000).does).toEqual(["probe main"]);
    expect(played.probed("readiness", "no").condition("Ready")).toBe("True");
    expect(played.wait(5_000).probed("readiness", "no").condition("Ready")).toBe("False");
    expect(played.record("main").stopGraceMs).toBeUndefined();
  });

  test("a liveness probe beyond its failure threshold restarts the container", () => {
    const played = new Played(podOf({ containers: [{ ...main, livenessProbe: probe }] })).started();
    played.probed("liveness", "no").wait(5_000).probed("liveness", "no");
    expect(played.does).toEqual(["stop main"]);
    expect(played.exited(143).does).toEqual(["start main"]);
  });

  test("only the startup probe runs until it has succeeded", () => {
    const container = { ...main, startupProbe: probe, livenessProbe: probe };
    const played = new Played(podOf({ containers: [container] })).started();
    expect(played.effects.filter(({ kind }) => kind === "probe")).toEqual([
      { kind: "probe", name: "main", attempt: 0, probe: "startup" },
    ]);
    expect(played.status.containerStatuses?.[0]?.started).toBe(false);
    played.probed("startup");
    expect(played.status.containerStatuses?.[0]?.started).toBe(true);
    expect(played.effects.filter(({ kind }) => kind === "probe")).toEqual([
      { kind: "probe", name: "main", attempt: 0, probe: "liveness" },
    ]);
  });

  test("a result for an earlier attempt changes nothing", () => {
    const played = new Played(podOf({ containers: [{ ...main, livenessProbe: { ...probe, failureThreshold: 1 } }] })).started();
    const late = { kind: "probed", name: "main", attempt: 0, probe: "liveness", problem: "no" } as const;
    expect(played.exited(1).started().play(late).does).toEqual([]);
  });
});

describe("termination", () => {
  test("stops with the grace period of the deletion, and releases the object once everything has exited", () => {
    const played = new Played(podOf()).started().deleted(7);
    expect(played.effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 7_000 });
    expect(played.exited(143).does).toEqual(["release"]);
    expect(played.play({ kind: "tick" }).does).toEqual([]);
  });

  test("is shortened by a second deletion with a shorter grace period, never extended", () => {
    const played = new Played(podOf()).started().deleted(30);
    expect(played.deleted(1).effects).toContainEqual({ kind: "stop", name: "main", attempt: 0, graceMs: 1_000 });
    expect(played.deleted(60).does).toEqual([]);
  });

  test("stops a program that was starting when the Pod was deleted", () => {
    const played = new Played(podOf()).deleted(5);
    expect(played.does).toEqual([]);
    expect(played.started().does).toEqual(["stop main"]);
  });

  test("fails the Pod at activeDeadlineSeconds", () => {
    const played = new Played(podOf({ activeDeadlineSeconds: 10 })).started();
    expect(nextWake(played.state)).toBe(played.now + 10_000);
    expect(played.wait(10_000).does).toEqual(["stop main"]);
    expect(played.exited(143).status).toMatchObject({ phase: "Failed", reason: "DeadlineExceeded" });
  });

  test("of a start shows the reason and retries on the next change", () => {
    const played = new Played(podOf());
    const reason = "CreateContainerConfigError";
    played.play({ kind: "refused", name: "main", attempt: 0, reason, message: "why" });
    expect(played.status.containerStatuses?.[0]?.state?.waiting).toEqual({ reason, message: "why" });
    expect(played.play({ kind: "changed", pod: played.state.pod }).does).toEqual(["start main"]);
    // Shown until the retry has succeeded or failed.
    expect(played.status.containerStatuses?.[0]?.state?.waiting).toEqual({ reason, message: "why" });
    expect(played.started().status.containerStatuses?.[0]?.state?.running).toBeDefined();
  });
});

describe("an image that cannot be pulled", () => {
  const refuse = (played: Played, reason = "ErrImagePull"): Played =>
    played.play({ kind: "refused", name: "main", attempt: 0, reason, message: "why" });

  test("is retried after 10 s, 20 s, 40 s up to 5 min, regardless of Pod changes", () => {
    const played = new Played(podOf());
    const pauses: number[] = [];
    for (let failure = 0; failure < 7; failure++) {
      refuse(played);
      expect(played.play({ kind: "changed", pod: played.state.pod }).does).toEqual([]);
      const pause = (nextWake(played.state) ?? 0) - played.now;
      pauses.push(pause / 1000);
      expect(played.wait(pause).does).toEqual(["start main"]);
    }
    expect(pauses).toEqual([10, 20, 40, 80, 160, 300, 300]);
  });

  test("shows ErrImagePull, then ImagePullBackOff with the reason, and nothing once it runs", () => {
    const played = refuse(new Played(podOf()));
    const waiting = (): unknown => played.status.containerStatuses?.[0]?.state?.waiting;
    expect(waiting()).toEqual({ reason: "ErrImagePull", message: "why" });
    refuse(played.wait(10_000));
    expect(waiting()).toMatchObject({ reason: "ImagePullBackOff", message: expect.stringMatching(/ErrImagePull: why$/) });
    played.wait(20_000).started().exited(1);
    expect(refuse(played.play({ kind: "tick" })).record("main").pullFailures).toBeUndefined();
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

  test("a terminated Pod starts nothing", () => {
    const ended = { ...podOf(), status: { phase: "Succeeded" as const, startTime: "2026-01-01T00:00:00Z" } };
    expect(stepPod(restorePodState(ended, [], 10), { kind: "tick" }, 10).effects).toEqual([]);
  });
});
