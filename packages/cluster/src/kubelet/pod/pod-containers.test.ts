import { describe, expect, test } from "vitest";
import { restorePodState } from "./restore.ts";
import { main, podOf, SimulatedPod } from "./testing/simulated-pod.ts";

describe("init containers", () => {
  const initContainers = [
    { ...main, name: "one" },
    { ...main, name: "two" },
  ];

  test("run one by one before the others", () => {
    const simulated = new SimulatedPod(podOf({ initContainers }));
    expect(simulated.actions).toEqual(["start one"]);
    expect(simulated.condition("Initialized")).toBe("False");
    expect(simulated.started("one").exited(0, "one").actions).toEqual(["start two"]);
    expect(simulated.started("two").exited(0, "two").actions).toEqual(["start main"]);
    expect(simulated.condition("Initialized")).toBe("True");
  });

  test("are incomplete until they succeed", () => {
    const simulated = new SimulatedPod(podOf({ initContainers }));
    const incomplete = () => simulated.status.conditions?.find(({ type }) => type === "Initialized")?.message;
    simulated.started("one");
    expect(incomplete()).toBe("containers with incomplete status: [one two]");
    expect(simulated.status.initContainerStatuses?.[0]?.ready).toBe(false);
    simulated.exited(0, "one");
    expect(incomplete()).toBe("containers with incomplete status: [two]");
    expect(simulated.status.initContainerStatuses?.[0]?.ready).toBe(true);
  });

  test("make the other containers wait for the initialization", () => {
    const reasonOf = (pod: ReturnType<typeof podOf>) =>
      new SimulatedPod(pod).status.containerStatuses?.[0]?.state?.waiting?.reason;
    expect(reasonOf(podOf({ initContainers }))).toBe("PodInitializing");
    expect(reasonOf(podOf({}))).toBe("ContainerCreating");
  });

  test("fail the Pod permanently with restartPolicy Never", () => {
    const simulated = new SimulatedPod(podOf({ initContainers, restartPolicy: "Never" })).started("one").exited(1, "one");
    expect(simulated.status.phase).toBe("Failed");
    expect(simulated.actions).toEqual([]);
  });

  test("a sidecar runs alongside the main containers and stops after them", () => {
    const side = { ...main, name: "side", restartPolicy: "Always" };
    const simulated = new SimulatedPod(podOf({ initContainers: [side], restartPolicy: "Never" }));
    expect(simulated.started("side").actions).toEqual(["start main"]);
    expect(simulated.started().exited(0).actions).toEqual(["stop side"]);
    expect(simulated.exited(143, "side").status.phase).toBe("Succeeded");
  });
});

describe("probes", () => {
  const probe = { exec: { command: ["true"] }, periodSeconds: 5, failureThreshold: 2 };

  test("a readiness probe sets readiness and never restarts", () => {
    const simulated = new SimulatedPod(podOf({ containers: [{ ...main, readinessProbe: probe }] })).started();
    expect(simulated.actions).toEqual(["probe main"]);
    expect(simulated.condition("Ready")).toBe("False");
    expect(simulated.probed("readiness").condition("Ready")).toBe("True");
    expect(simulated.wait(5_000).actions).toEqual(["probe main"]);
    expect(simulated.probed("readiness", "no").condition("Ready")).toBe("True");
    expect(simulated.wait(5_000).probed("readiness", "no").condition("Ready")).toBe("False");
    expect(simulated.record("main").stopGraceMs).toBeUndefined();
  });

  test("a liveness probe beyond its failure threshold restarts the container", () => {
    const simulated = new SimulatedPod(podOf({ containers: [{ ...main, livenessProbe: probe }] })).started();
    simulated.probed("liveness", "no").wait(5_000).probed("liveness", "no");
    expect(simulated.actions).toEqual(["stop main"]);
    expect(simulated.exited(143).actions).toEqual(["start main"]);
  });

  test("only the startup probe runs until it has succeeded", () => {
    const container = { ...main, startupProbe: probe, livenessProbe: probe };
    const simulated = new SimulatedPod(podOf({ containers: [container] })).started();
    expect(simulated.effects.filter(({ kind }) => kind === "probe")).toEqual([
      { kind: "probe", name: "main", attempt: 0, probe: "startup" },
    ]);
    expect(simulated.status.containerStatuses?.[0]?.started).toBe(false);
    simulated.probed("startup");
    expect(simulated.status.containerStatuses?.[0]?.started).toBe(true);
    expect(simulated.effects.filter(({ kind }) => kind === "probe")).toEqual([
      { kind: "probe", name: "main", attempt: 0, probe: "liveness" },
    ]);
  });

  test("a result for an earlier attempt changes nothing", () => {
    const simulated = new SimulatedPod(
      podOf({ containers: [{ ...main, livenessProbe: { ...probe, failureThreshold: 1 } }] }),
    ).started();
    const late = { kind: "probed", name: "main", attempt: 0, probe: "liveness", problem: "no" } as const;
    expect(simulated.exited(1).started().apply(late).actions).toEqual([]);
  });
});

describe("ephemeral containers", () => {
  const ephemeralContainers = [{ ...main, name: "debugger" }];
  const withDebugger = (simulated: SimulatedPod) => {
    const { pod } = simulated.state;
    return simulated.apply({ kind: "changed", pod: { ...pod, spec: { ...pod.spec, ephemeralContainers } } });
  };

  test("start when they are added, even while init containers run", () => {
    expect(withDebugger(new SimulatedPod(podOf()).started()).actions).toEqual(["start debugger"]);
    const initContainers = [{ ...main, name: "init" }];
    expect(withDebugger(new SimulatedPod(podOf({ initContainers })).started("init")).actions).toEqual(["start debugger"]);
  });

  test("are shown apart, are never restarted, and do not make the Pod unready", () => {
    const simulated = withDebugger(new SimulatedPod(podOf()).started());
    expect(simulated.started("debugger").status.ephemeralContainerStatuses).toMatchObject([
      { name: "debugger", ready: false, state: { running: {} } },
    ]);
    expect(simulated.status.containerStatuses).toHaveLength(1);
    expect(simulated.exited(1, "debugger").actions).toEqual([]);
    expect(simulated.condition("Ready")).toBe("True");
    expect(simulated.status.ephemeralContainerStatuses?.[0]?.state?.terminated?.exitCode).toBe(1);
  });

  test("are stopped when the Pod has ended", () => {
    const simulated = withDebugger(new SimulatedPod(podOf({ restartPolicy: "Never" })).started()).started("debugger");
    expect(simulated.exited(0).actions).toEqual(["stop debugger"]);
    expect(simulated.exited(137, "debugger").status.phase).toBe("Succeeded");
  });

  test("are found again after a restart of the kubelet", () => {
    const simulated = withDebugger(new SimulatedPod(podOf()).started()).started("debugger");
    const programs = ["main", "debugger"].map((container) => ({
      container,
      attempt: 0,
      state: { kind: "running", pid: 1, startedAt: simulated.now } as const,
    }));
    const restored = restorePodState(simulated.state.pod, programs, simulated.now);
    expect(restored.containers.map(({ role, current }) => `${role} ${current.kind}`)).toEqual([
      "main running",
      "ephemeral running",
    ]);
  });
});
