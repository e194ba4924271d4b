import type { DeepReadonly } from "@keelson/api-machinery";
import type { GroupRollout } from "../../api/update-policy.ts";
import { decideRollout } from "../../rollout/rollout-decision.ts";
import type { Copy } from "../../rollout/rollout-observation.ts";
import type { CompleteUpdatePolicy } from "../../rollout/update-policy.ts";
import { t0 } from "../objects.ts";
import { Simulation } from "./simulation.ts";

/** How a run behaves. */
export interface RolloutModelOptions {
  readonly seed: number;
  readonly policy: Partial<CompleteUpdatePolicy>;
  /** Robots on which the new revision fails. */
  readonly broken: number;
  readonly copies?: number;
  /** Number of steps after which the spec changes again, to revision 3. Default: it does not. */
  readonly changeAfter?: number;
}

/** Result of a run. */
export interface RolloutModelResult {
  readonly violations: readonly string[];
  /** Phase of the first rollout. */
  readonly phase: string;
  readonly starts: number;
  readonly maxUpdating: number;
}

interface ModelTask {
  revision: number;
  runsAtMs: number | undefined;
  isDeleting: boolean;
}

interface ModelCopy {
  readonly key: string;
  readonly isBroken: boolean;
  isOnline: boolean;
  /** Whether its robot left, and its update was not over since. Such a copy is not the rollout's fault. */
  isDisturbed: boolean;
  task: ModelTask | undefined;
}

const stepMs = 5_000;
const maxSteps = 5_000;

/**
 * Rolls out revision 2 over copies whose robots leave and return, with writes that are lost, decisions on outdated state, and tasks that
 * start late or not at all; then reverts to revision 1 if the rollout fails. The spec may change again during the rollout. Checks that
 *
 * - the rollout never makes more than `maxParallel` copies unavailable, plus the unhealthy ones that it tolerates;
 * - it ends, as does the revert;
 * - at the end every copy on an online robot has the revision of the last rollout, unless robots that returned after it were unhealthy.
 */
export class RolloutModel {
  readonly #options: RolloutModelOptions;
  readonly #policy: CompleteUpdatePolicy;
  readonly #simulation: Simulation;
  readonly #copies: ModelCopy[];
  readonly #violations: string[] = [];
  #status: GroupRollout | undefined = { revision: 1, phase: "completed", progressAt: new Date(t0).toISOString() };
  #hasFaults = true;
  #nowMs = t0;
  #starts = 0;
  #maxUpdating = 0;

  constructor(options: RolloutModelOptions) {
    this.#options = options;
    this.#simulation = new Simulation(options.seed);
    this.#policy = {
      maxParallel: 3,
      minHealthyMs: 10_000,
      healthyDeadlineMs: 300_000,
      progressDeadlineMs: 900_000,
      canary: 0,
      autoPromote: false,
      autoRevert: true,
      maxUnhealthy: 0,
      waves: [],
      windows: [],
      ...options.policy,
    };
    this.#copies = Array.from({ length: options.copies ?? 20 }, (_, index) => ({
      key: `run/${String(index).padStart(2, "0")}`,
      isBroken: index < options.broken,
      isOnline: this.#simulation.chance(0.9),
      isDisturbed: false,
      task: { revision: 1, runsAtMs: t0 - 60_000, isDeleting: false },
    }));
  }

  /** Runs the rollout and, if it fails, the revert. */
  run(): RolloutModelResult {
    const { changeAfter } = this.#options;
    for (let step = 0; step < (changeAfter ?? 0); step++) this.#step(2, false);
    const latest = changeAfter === undefined ? 2 : 3;
    const phase = this.#rollOut(latest, false);
    const last = phase === "failed" ? 1 : latest;
    if (phase === "failed") {
      const reverted = this.#rollOut(1, true);
      if (reverted !== "completed") this.#violations.push(`the revert ended as ${reverted}`);
    }
    this.#hasFaults = false;
    for (const copy of this.#copies) copy.isOnline = true;
    for (let step = 0; step < 500; step++) this.#step(last, last === 1);
    for (const { key, task, isBroken } of this.#copies) {
      // Robots that return late keep their revision if too many others were unhealthy.
      if (this.#status?.reason === "UnhealthyTasks" && task?.revision === 1) continue;
      if (task?.revision !== last) this.#violations.push(`${key} ended with revision ${task?.revision}, not ${last}`);
      if (task?.runsAtMs === undefined && !(isBroken && last === 2)) this.#violations.push(`${key} does not run at the end`);
    }
    return { violations: this.#violations, phase, starts: this.#starts, maxUpdating: this.#maxUpdating };
  }

  #rollOut(revision: number, isRevert: boolean): string {
    for (let step = 0; step < maxSteps; step++) {
      this.#step(revision, isRevert);
      const { phase } = this.#status ?? {};
      if (this.#status?.revision === revision && (phase === "completed" || phase === "failed")) return phase;
    }
    this.#violations.push(`the rollout of revision ${revision} did not end: ${this.#status?.message}`);
    return "stuck";
  }

  #step(revision: number, isRevert: boolean): void {
    const simulation = this.#simulation;
    this.#nowMs += stepMs;
    if (this.#hasFaults) {
      for (const copy of this.#copies) {
        if (!simulation.chance(0.005)) continue;
        copy.isOnline = !copy.isOnline;
        copy.isDisturbed = true;
      }
    }
    for (const copy of this.#copies) this.#advance(copy);
    if (simulation.chance(0.9)) this.#reconcile(revision, isRevert);
    this.#check();
  }

  /** What the robot of a copy does in the meantime. */
  #advance(copy: ModelCopy): void {
    const { task } = copy;
    if (task === undefined || !copy.isOnline) return;
    if (task.isDeleting) {
      if (this.#simulation.chance(0.5)) copy.task = undefined;
    } else if (task.runsAtMs === undefined && !(copy.isBroken && task.revision === 2) && this.#simulation.chance(0.3)) {
      task.runsAtMs = this.#nowMs;
    }
  }

  #reconcile(revision: number, isRevert: boolean): void {
    const before: DeepReadonly<GroupRollout> | undefined = this.#status;
    const decision = decideRollout({
      revision,
      stable: 1,
      isPaused: false,
      isPromoted: false,
      isRevert,
      policy: this.#policy,
      copies: this.#copies.map((copy) => this.#seen(copy)),
      surplus: { total: 0, deleting: 0 },
      before,
      window: { kind: "open" },
      now: this.#nowMs,
    });
    for (const copy of this.#copies) {
      if (copy.task !== undefined || decision.postpone.has(copy.key) || this.#isLost()) continue;
      const created = decision.createStable.has(copy.key) ? 1 : revision;
      copy.task = { revision: created, runsAtMs: undefined, isDeleting: false };
      if (created === revision) this.#starts++;
    }
    for (const key of decision.stop) {
      const task = this.#copies.find((copy) => copy.key === key)?.task;
      if (task !== undefined && !this.#isLost()) task.isDeleting = true;
    }
    // A crash before the status is stored.
    if (!this.#isLost()) this.#status = decision.status;
  }

  #isLost(): boolean {
    return this.#hasFaults && this.#simulation.chance(0.1);
  }

  #seen({ key, task, isOnline, isBroken }: ModelCopy): Copy {
    const runsMs = task?.runsAtMs;
    const availableAtMs = runsMs === undefined ? undefined : runsMs + this.#policy.minHealthyMs;
    const isAvailable = availableAtMs !== undefined && availableAtMs <= this.#nowMs;
    // Some broken tasks report a failure; the others never become healthy.
    const hasFailed = isBroken && task?.revision === 2 && key.endsWith("1");
    return {
      key,
      robot: key,
      isOffline: !isOnline,
      wave: 0,
      ...(task === undefined ? {} : { revision: task.revision }),
      isDeleting: task?.isDeleting === true,
      condition: hasFailed ? "failed" : isAvailable ? "available" : "starting",
      ...(availableAtMs === undefined || isAvailable ? {} : { availableAtMs }),
      isInStable: true,
    };
  }

  /** Every copy was running at first, so one that is not was stopped by a rollout. */
  #check(): void {
    const updating = new Set((this.#status?.updating ?? []).map(({ task }) => task));
    const unavailable = this.#copies.filter((copy) => {
      const isRunning = copy.task?.runsAtMs !== undefined && !copy.task.isDeleting;
      if (copy.isOnline && isRunning && !updating.has(copy.key)) copy.isDisturbed = false;
      return copy.isOnline && !copy.isDisturbed && !isRunning;
    });
    this.#maxUpdating = Math.max(this.#maxUpdating, unavailable.length);
    if (unavailable.length > this.#policy.maxParallel + this.#policy.maxUnhealthy) {
      const at = new Date(this.#nowMs).toISOString();
      this.#violations.push(`${unavailable.length} copies unavailable at ${at}, seed ${this.#options.seed}`);
    }
  }
}
