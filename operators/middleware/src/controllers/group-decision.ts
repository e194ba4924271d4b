import {
  compareQuantities,
  ConfigMap,
  type ConfigMapObject,
  type DeepReadonly,
  draft,
  formatTime,
  jsonEquals,
  type KubernetesObject,
  PersistentVolumeClaim,
  type PersistentVolumeClaimObject,
  Pod,
  type PodObject,
  Service,
} from "@keelson/api-machinery";
import { Group, type GroupStatus } from "../api/group.ts";
import { annotations, configHashAnnotation, labels, revisionAnnotation } from "../api/names.ts";
import type { ErrorClass, Operation, PodState } from "../api/parts.ts";
import type { Instance, RenderedGroup } from "../plugin/render-group.ts";
import { isPermutation } from "./component-decision.ts";
import type { Call, CallResult, Decision, Effect } from "./effect.ts";

/** What the agent of a Pod says of it. */
export interface Role {
  readonly role: string;
  /** The address that a replica follows. */
  readonly primaryHost?: string;
  /** Whether a replica has all that its primary has, but for what is on the way. */
  readonly isInSync: boolean;
  readonly configHash?: string;
  readonly version?: string;
}

/** What the Group's controller sees. */
export interface GroupObservation {
  readonly group: DeepReadonly<Group>;
  /** The Group as the plugin renders it, or what is wrong with that. */
  readonly rendered: RenderedGroup | { readonly problem: string };
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  readonly configs: readonly DeepReadonly<ConfigMapObject>[];
  readonly services: readonly DeepReadonly<KubernetesObject>[];
  /** What agents answered just now, by name of the Pod; those that did not answer are not in it. */
  readonly roles: ReadonlyMap<string, Role>;
  readonly now: number;
}

/** How often a Group is looked at while it changes, and while it does not. */
const busyMs = 500;
const idleMs = 10_000;
const mostSteps = 50;

interface View {
  readonly name: string;
  readonly pod: DeepReadonly<PodObject> | undefined;
  readonly instance: Instance | undefined;
  readonly role: Role | undefined;
  readonly ip: string | undefined;
}

/** What a Group does next: one thing at a time. */
type Next =
  /** Something else has to happen first. */
  | { readonly kind: "wait"; readonly message: string; readonly isDown?: boolean }
  /** To be recorded before it is done. */
  | {
      readonly kind: "record";
      readonly message: string;
      readonly change: (status: GroupStatus) => void;
      readonly step?: readonly [target: string, action: string];
    }
  /** To be done; doing it again does no harm. */
  | { readonly kind: "do"; readonly message: string; readonly effects: readonly Effect[] }
  | { readonly kind: "fail"; readonly message: string; readonly errorClass: ErrorClass }
  | { readonly kind: "settled" };

/**
 * What to do about a Group. Pure: it compares what its Pods are with what they are to be, and takes the one next step. Of what
 * disturbs, one thing at a time and only while every other Pod is well: replicas first, the primary's role is handed over
 * before its Pod is touched. Intents are recorded in the status before they are carried out.
 */
export function decideGroup(observed: GroupObservation): Decision {
  const { group, rendered, now } = observed;
  if (group.metadata.deletionTimestamp !== undefined) return { effects: [] };
  const { spec, metadata } = group;
  const status = draft(group.status ?? {}) as GroupStatus;
  if (spec.operation !== undefined && status.operation?.token !== spec.operation.token) {
    status.operation = {
      token: spec.operation.token,
      scenario: spec.operation.scenario,
      phase: "Running",
      startedAt: formatTime(now),
      steps: [],
    };
    delete status.restartNeeded;
  }
  status.observedGeneration = metadata.generation ?? 0;
  const operation = status.operation;
  const isRunning = operation?.phase === "Running";
  const isCancelled = isRunning && metadata.annotations?.[annotations.cancelRequest] === operation.token;
  if ("problem" in rendered) {
    if (isRunning) finish(operation, "Failed", rendered.problem, "Config");
    status.phase = "Degraded";
    return changed(group, status) ?? { effects: [] };
  }
  const views = viewsOf(observed, rendered);
  status.pods = podStates(views, status);
  status.replicas = spec.stopped ? 0 : spec.replicas;
  status.readyReplicas = status.pods.filter((pod) => pod.ready).length;
  const versions = new Set(status.pods.map((pod) => pod.version));
  const [version] = versions;
  if (versions.size === 1 && version !== undefined) status.currentVersion = version;

  let next = keepUp(observed, rendered, views, status);
  const isSafe = status.restarting === undefined && status.switchover === undefined;
  if (isCancelled && isSafe && (next.kind === "settled" || next.kind === "wait")) finish(operation, "Cancelled", "cancelled");
  else if (next.kind === "settled" && isRunning) next = change(observed, rendered, views, status);
  if (isRunning && operation.phase === "Running") {
    if (next.kind === "settled") finish(operation, "Succeeded", "done");
    else if (next.kind === "fail") finish(operation, "Failed", next.message, next.errorClass);
    else operation.message = next.message;
  }
  if (next.kind === "record") {
    next.change(status);
    if (next.step && operation) {
      operation.steps = [...(operation.steps ?? []), { target: next.step[0], action: next.step[1], at: formatTime(now) }].slice(
        -mostSteps,
      );
    }
  }
  const isWell = status.readyReplicas >= status.replicas;
  status.phase = operation?.phase === "Running" ? "Updating" : spec.stopped ? "Stopped" : isWell ? "Running" : "Degraded";
  const isBusy = next.kind !== "settled" || operation?.phase === "Running";
  return (
    changed(group, status) ?? {
      effects: next.kind === "do" ? next.effects : [],
      requeueAfterMs: isBusy ? busyMs : idleMs,
    }
  );
}

function changed(group: DeepReadonly<Group>, status: GroupStatus): Decision | undefined {
  if (jsonEquals(status, group.status ?? {})) return undefined;
  return { effects: [{ kind: "status", type: Group, object: group, status }], requeueAfterMs: busyMs };
}

function finish(operation: Operation, phase: Operation["phase"], message: string, errorClass?: ErrorClass): void {
  operation.phase = phase;
  operation.message = message;
  if (errorClass !== undefined) operation.errorClass = errorClass;
}

const wait = (message: string): Next => ({ kind: "wait", message });

function viewsOf({ pods, roles }: GroupObservation, rendered: RenderedGroup): readonly View[] {
  const names = new Set([
    ...rendered.instances.map((instance) => instance.name),
    ...pods.map((pod) => pod.metadata.name ?? ""),
  ]);
  return [...names]
    .map((name): View => {
      const pod = pods.find((each) => each.metadata.name === name);
      const isGoing = pod?.metadata.deletionTimestamp !== undefined;
      return {
        name,
        pod,
        instance: rendered.instances.find((each) => each.name === name),
        role: isGoing ? undefined : roles.get(name),
        ip: pod?.status?.podIP,
      };
    })
    .sort((a, b) => ordinalOf(a.name) - ordinalOf(b.name));
}

const ordinalOf = (name: string): number => Number(/-(\d+)$/.exec(name)?.[1] ?? 0);

function isSynced(view: View, status: GroupStatus, views: readonly View[]): boolean {
  if (view.role === undefined) return false;
  const primary = views.find((each) => each.name === status.primary?.pod);
  if (primary === view) return view.role.role === "primary";
  return view.role.role === "replica" && view.role.isInSync && view.role.primaryHost === primary?.ip;
}

function podStates(views: readonly View[], status: GroupStatus): PodState[] {
  return views
    .filter((view) => view.pod !== undefined)
    .map((view) => ({
      name: view.name,
      uid: view.pod?.metadata.uid ?? "",
      ...(view.ip === undefined ? {} : { ip: view.ip }),
      role: view.role?.role ?? "unknown",
      ...(view.role?.version === undefined ? {} : { version: view.role.version }),
      ...(view.role?.configHash === undefined ? {} : { configHash: view.role.configHash }),
      ready: isSynced(view, status, views),
    }));
}

/** What holds with or without an operation: Pods exist, one of them is the primary, the others follow it. */
function keepUp(observed: GroupObservation, rendered: RenderedGroup, views: readonly View[], status: GroupStatus): Next {
  const { group } = observed;
  const { restarting } = status;
  if (restarting !== undefined) return goOnRestarting(observed, restarting, views);
  if (status.switchover !== undefined) return goOnSwitching(status.switchover, views, status);
  if (group.spec.stopped) return stopAll(views, status);

  const missing = rendered.instances.filter(
    (instance) => !views.some((view) => view.name === instance.name && view.pod !== undefined),
  );
  const services = rendered.services.filter(
    (service) => !observed.services.some((each) => each.metadata.name === service.metadata.name),
  );
  if (missing.length > 0 || services.length > 0) {
    const names = missing.map((instance) => instance.name);
    return {
      kind: "do",
      message: `starts ${names.join(", ")}`,
      effects: [
        ...services.map((object): Effect => ({ kind: "apply", type: Service, object })),
        ...missing.flatMap((instance) => startEffects(instance, observed)),
      ],
    };
  }
  const present = views.filter((view) => view.instance !== undefined);
  for (const view of present) {
    if (view.role !== undefined || view.pod === undefined) continue;
    const { pod } = view;
    if (pod.metadata.deletionTimestamp !== undefined) return wait(`waits for the old Pod ${view.name} to end`);
    const config = observed.configs.find((each) => each.metadata.name === view.instance?.config?.metadata.name);
    const isOutdated =
      pod.metadata.annotations?.[revisionAnnotation] !== view.instance?.revision ||
      (config !== undefined && config.metadata.annotations?.[configHashAnnotation] !== rendered.configHash);
    const isEnded = pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded";
    // It serves nobody as it is, so nothing is lost by making it anew the way it is wanted now.
    if (isEnded || (isOutdated && status.operation?.phase === "Running"))
      return restart(view, `${view.name} is down and is made anew`);
    return { kind: "wait", message: `waits for the agent of ${view.name} to answer`, isDown: true };
  }
  const roles = settleRoles(present, views, status);
  if (roles.kind !== "settled") return roles;
  const unlabelled = views.find((view) => view.role && view.pod && view.pod.metadata.labels?.[labels.role] !== view.role.role);
  if (unlabelled?.role !== undefined && unlabelled.pod !== undefined) {
    const { name = "", namespace = "" } = unlabelled.pod.metadata;
    return {
      kind: "do",
      message: `marks ${name} as ${unlabelled.role.role}`,
      effects: [
        {
          kind: "apply",
          type: Pod,
          object: {
            apiVersion: "v1",
            kind: "Pod",
            metadata: { name, namespace, labels: { [labels.role]: unlabelled.role.role } },
          },
        },
      ],
    };
  }
  return { kind: "settled" };
}

function startEffects(instance: Instance, { claims }: GroupObservation): Effect[] {
  const { config, claim, pod } = instance;
  const hasClaim = claims.some((each) => each.metadata.name === claim?.metadata.name);
  return [
    ...(config === undefined ? [] : [{ kind: "apply" as const, type: ConfigMap, object: config }]),
    ...(claim === undefined || hasClaim ? [] : [{ kind: "apply" as const, type: PersistentVolumeClaim, object: claim }]),
    { kind: "apply", type: Pod, object: pod },
  ];
}

function settleRoles(present: readonly View[], views: readonly View[], status: GroupStatus): Next {
  const [first] = present;
  if (first === undefined) return { kind: "settled" };
  const primary = views.find((view) => view.name === status.primary?.pod);
  const epoch = status.primary?.epoch ?? 0;
  if (status.primary === undefined || (primary === undefined && present.every((view) => view.role?.role === "unassigned"))) {
    const leaders = present.filter((view) => view.role?.role === "primary");
    const isFresh = present.every((view) => view.role?.role === "unassigned");
    const chosen = leaders.length === 1 ? leaders[0] : isFresh ? first : undefined;
    if (chosen === undefined) return wait(`waits for somebody to say which Pod is the primary: ${leaders.length} say they are`);
    return {
      kind: "record",
      message: `${chosen.name} becomes the primary`,
      change: (next) => {
        next.primary = { pod: chosen.name, epoch: epoch + 1 };
      },
      step: [chosen.name, "becomes the primary"],
    };
  }
  if (primary?.role === undefined || primary.ip === undefined) return wait(`waits for the primary ${status.primary.pod}`);
  const token = `${status.primary.pod}/${epoch}`;
  if (primary.role.role !== "primary") {
    // A volume without a memory of any role, while others have data: taking writes there would make them throw theirs away.
    if (primary.role.role === "unassigned" && views.some((view) => view.role?.role === "replica")) {
      return wait(`the primary ${primary.name} has lost its volume and others have not: hand over by hand`);
    }
    return call(
      primary,
      { method: "AssignRole", role: "primary", primary: primary.ip, epoch, token },
      `makes ${primary.name} the primary`,
    );
  }
  const stray = views.find(
    (view) =>
      view !== primary && view.role !== undefined && (view.role.role !== "replica" || view.role.primaryHost !== primary.ip),
  );
  if (stray !== undefined) {
    return call(
      stray,
      { method: "AssignRole", role: "replica", primary: primary.ip, epoch, token },
      `makes ${stray.name} follow ${primary.name}`,
    );
  }
  const late = present.find((view) => !isSynced(view, status, views));
  return late === undefined ? { kind: "settled" } : wait(`waits for ${late.name} to be in sync`);
}

/** A call whose answer needs no record: the next look at the Pod shows what came of it. */
function call(view: View, order: Call, message: string): Next {
  if (view.ip === undefined) return wait(`waits for the address of ${view.name}`);
  return { kind: "do", message, effects: [{ kind: "call", ip: view.ip, call: order, after: () => undefined }] };
}

function goOnRestarting(
  { group }: GroupObservation,
  { pod: name, uid }: NonNullable<GroupStatus["restarting"]>,
  views: readonly View[],
): Next {
  const view = views.find((each) => each.name === name);
  if (view?.pod === undefined || view.pod.metadata.uid !== uid) {
    return {
      kind: "record",
      message: `${name} has ended`,
      change: (next) => {
        delete next.restarting;
      },
    };
  }
  if (view.pod.metadata.deletionTimestamp !== undefined) return wait(`waits for ${name} to end`);
  const effects: Effect[] = [];
  if (view.role !== undefined && view.ip !== undefined) {
    effects.push({ kind: "call", ip: view.ip, call: { method: "Stop", token: uid }, after: () => undefined });
  }
  effects.push({ kind: "delete", type: Pod, key: { namespace: group.metadata.namespace, name }, uid });
  return { kind: "do", message: `stops ${name}`, effects };
}

function goOnSwitching(switchover: NonNullable<GroupStatus["switchover"]>, views: readonly View[], status: GroupStatus): Next {
  const { from, to, epoch, token } = switchover;
  const [old, chosen] = [views.find((view) => view.name === from), views.find((view) => view.name === to)];
  const forget = (change: (status: GroupStatus) => void, message: string): Next => ({
    kind: "record",
    message,
    change: (next) => {
      delete next.switchover;
      change(next);
    },
    step: [to, message],
  });
  if (chosen?.role?.role === "primary" && old?.role?.role !== "primary") {
    return forget((next) => {
      next.primary = { pod: to, epoch };
      // Another version may have written by now what the old one cannot read.
      if (next.operation?.scenario === "upgrade") next.operation.pointOfNoReturn = true;
    }, `took over from ${from}`);
  }
  if (old?.role?.role !== "primary") return wait(`waits to see whether ${to} took over from ${from}`);
  if (chosen?.ip === undefined || old.ip === undefined || chosen.role === undefined) {
    return forget(() => undefined, `was to take over from ${from} and went away`);
  }
  const others = views
    .filter((view) => view !== old && view !== chosen && view.role !== undefined)
    .flatMap((view) => view.ip ?? []);
  const effect: Effect = {
    kind: "call",
    ip: old.ip,
    call: { method: "Failover", target: chosen.ip, others, epoch, token },
    after: (result) => afterSwitchover(status, result),
  };
  return { kind: "do", message: `hands the primary's role from ${from} to ${to}`, effects: [effect] };
}

/** A switchover that its agent refused did not happen: strict, nobody is promoted anyway. */
function afterSwitchover(status: GroupStatus, result: CallResult): object | undefined {
  if (result.kind !== "refused") return undefined;
  const { switchover: _, ...rest } = status;
  const operation = rest.operation;
  if (operation?.phase !== "Running") return rest;
  return {
    ...rest,
    operation: {
      ...operation,
      phase: "Failed",
      errorClass: "AgentPrecondition",
      message: `the switchover was refused: ${result.message}`,
    },
  };
}

function restart(view: View, message: string, remove = false): Next {
  return {
    kind: "record",
    message,
    change: (next) => {
      next.restarting = { pod: view.name, uid: view.pod?.metadata.uid ?? "", ...(remove ? { remove } : {}) };
    },
    step: [view.name, remove ? "is taken away" : "restarts"],
  };
}

function stopAll(views: readonly View[], status: GroupStatus): Next {
  const running = views.filter((view) => view.pod !== undefined);
  const last = running.find((view) => view.name === status.primary?.pod);
  const [first = last] = running.filter((view) => view !== last).reverse();
  return first === undefined ? { kind: "settled" } : restart(first, `stops ${first.name}`, true);
}

/** What an operation changes, once everything is well: volumes, then parameters and Pods in their order, then superfluous Pods. */
function change(observed: GroupObservation, rendered: RenderedGroup, views: readonly View[], status: GroupStatus): Next {
  const volumes = growVolumes(observed, rendered);
  if (volumes.kind !== "settled") return volumes;
  const pods = changePods(observed, rendered, views, status);
  if (pods.kind !== "settled") return pods;
  const superfluous = views.filter((view) => view.instance === undefined && view.pod !== undefined).reverse();
  const [gone] = superfluous;
  if (gone === undefined) return { kind: "settled" };
  if (gone.name === status.primary?.pod) return switchover(gone, views, status, rendered);
  return restart(gone, `takes ${gone.name} away; its volume stays`, true);
}

function growVolumes({ claims }: GroupObservation, rendered: RenderedGroup): Next {
  for (const { claim } of rendered.instances) {
    const is = claims.find((each) => each.metadata.name === claim?.metadata.name);
    const wanted = claim?.spec?.resources?.requests?.storage;
    const asked = is?.spec?.resources?.requests?.storage;
    if (claim === undefined || is === undefined || wanted === undefined || asked === undefined) continue;
    const name = claim.metadata.name ?? "";
    if (compareQuantities(wanted, asked) > 0) {
      return {
        kind: "do",
        message: `grows ${name} to ${wanted}`,
        effects: [{ kind: "apply", type: PersistentVolumeClaim, object: claim }],
      };
    }
    const capacity = is.status?.capacity?.storage;
    if (capacity === undefined || compareQuantities(capacity, wanted) < 0)
      return wait(`waits for ${name} to have ${wanted}; it has ${capacity ?? "nothing yet"}`);
  }
  return { kind: "settled" };
}

function changePods(observed: GroupObservation, rendered: RenderedGroup, views: readonly View[], status: GroupStatus): Next {
  const { configHash, parameters } = rendered;
  const present = views.filter((view) => view.instance !== undefined);
  const isOld = (view: View): boolean => view.pod?.metadata.annotations?.[revisionAnnotation] !== view.instance?.revision;
  const isOther = (view: View): boolean => view.role?.configHash !== configHash;
  const outdated = present.filter((view) => isOld(view) || isOther(view));
  if (outdated.length > 0) {
    const { operation } = status;
    const primary = present.find((view) => view.name === status.primary?.pod);
    if (operation !== undefined && operation.order === undefined)
      return askForOrder(observed, present, primary, status, operation);
    const order = operation?.order ?? [];
    // Roles may have changed since the order was fixed: whoever is the primary now goes last.
    const rank = (view: View): number => (view === primary ? Number.MAX_SAFE_INTEGER : order.indexOf(view.name));
    const [view] = [...outdated].sort((a, b) => rank(a) - rank(b));
    if (view === undefined) return { kind: "settled" };
    if (isOld(view) || status.restartNeeded === configHash) {
      if (view === primary && present.length > 1) return switchover(view, views, status, rendered);
      return restart(view, `restarts ${view.name}`);
    }
    if (view.ip === undefined) return wait(`waits for the address of ${view.name}`);
    return {
      kind: "do",
      message: `sets parameters on ${view.name}`,
      effects: [
        {
          kind: "call",
          ip: view.ip,
          call: { method: "ReloadConfig", parameters, hash: configHash, token: `${operation?.token ?? ""}/${view.name}` },
          after: (result) => afterReload(status, result, view.name, configHash, observed.now),
        },
      ],
    };
  }
  // The files follow what the programs have taken.
  const stale = rendered.instances.filter(({ config }) => {
    const is = observed.configs.find((each) => each.metadata.name === config?.metadata.name);
    return config !== undefined && is?.metadata.annotations?.[configHashAnnotation] !== configHash;
  });
  if (stale.length === 0) return { kind: "settled" };
  return {
    kind: "do",
    message: "writes parameters into their files",
    effects: stale.flatMap(({ config }) =>
      config === undefined ? [] : [{ kind: "apply" as const, type: ConfigMap, object: config }],
    ),
  };
}

/** The answer of a program to new parameters, as the Group remembers it. */
function afterReload(status: GroupStatus, result: CallResult, pod: string, hash: string, now: number): object | undefined {
  const { operation } = status;
  if (operation === undefined) return undefined;
  const step = (action: string): Operation => ({
    ...operation,
    steps: [...(operation.steps ?? []), { target: pod, action, at: formatTime(now) }].slice(-mostSteps),
  });
  switch (result.kind) {
    case "restart":
      return { ...status, restartNeeded: hash, operation: step(`needs a restart for ${result.parameters.join(", ")}`) };
    case "refused":
      return {
        ...status,
        operation: {
          ...operation,
          phase: "Failed",
          errorClass: "Config",
          message: `${pod} refuses the parameters: ${result.message}`,
        },
      };
    case "done":
      return { ...status, operation: step("took the parameters") };
    default:
      return undefined;
  }
}

function askForOrder(
  { group }: GroupObservation,
  present: readonly View[],
  primary: View | undefined,
  status: GroupStatus,
  operation: Operation,
): Next {
  const names = present.map((view) => view.name);
  const careful = [...names].reverse().sort((a, b) => Number(a === primary?.name) - Number(b === primary?.name));
  const fix = (order: readonly string[]): object => ({ ...status, operation: { ...operation, order: [...order] } });
  if (primary?.ip === undefined || names.length < 2) {
    return {
      kind: "record",
      message: "fixes the order of its Pods",
      change: (next) => {
        if (next.operation) next.operation.order = careful;
      },
    };
  }
  const roles = Object.fromEntries(present.map((view) => [view.name, view === primary ? "primary" : "replica"]));
  return {
    kind: "do",
    message: "asks for the order of its Pods",
    effects: [
      {
        kind: "call",
        ip: primary.ip,
        call: { method: "GetPodOrder", group: group.metadata.name ?? "", scenario: operation.scenario, pods: names, roles },
        // No answer or a bad one: one by one, the primary last. Never all at once.
        after: (result) => fix(result.kind === "order" && isPermutation(result.order, names) ? result.order : careful),
      },
    ],
  };
}

/** Begins a switchover to a replica that is in sync and, if there is one, already as it is to be. */
function switchover(from: View, views: readonly View[], status: GroupStatus, rendered: RenderedGroup): Next {
  const candidates = views.filter((view) => view !== from && view.instance !== undefined && isSynced(view, status, views));
  const isReady = (view: View): boolean =>
    view.pod?.metadata.annotations?.[revisionAnnotation] === view.instance?.revision &&
    view.role?.configHash === rendered.configHash;
  const to = candidates.find(isReady) ?? candidates[0];
  if (to === undefined)
    return {
      kind: "fail",
      message: `no replica is in sync, so ${from.name} keeps its role and is not restarted`,
      errorClass: "AgentPrecondition",
    };
  const epoch = (status.primary?.epoch ?? 0) + 1;
  return {
    kind: "record",
    message: `hands the primary's role from ${from.name} to ${to.name}`,
    change: (next) => {
      next.switchover = { token: `${next.operation?.token ?? ""}/switchover/${epoch}`, from: from.name, to: to.name, epoch };
    },
    step: [from.name, `hands its role to ${to.name}`],
  };
}
