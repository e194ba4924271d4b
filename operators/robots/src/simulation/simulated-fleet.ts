import { parseDuration, isDuration } from "@keelson/api-machinery/time";
import type { TaskOrder } from "../agent/tasks/task-order.ts";
import { type ProgramEnd, SimulatedRobot, type SimulatedRobotOptions } from "./simulated-robot.ts";

/** Variables of a task that say how its simulated program behaves. */
const simulationVariables = {
  /** Run time, after which the program exits. Default: it runs until it is stopped. */
  run: "SIMULATE_RUN",
  /** Exit code. Default 0. */
  exit: "SIMULATE_EXIT",
  /** `true`: on failing robots the program exits with 1 immediately. */
  fails: "SIMULATE_FAILS",
} as const;

/** Options of a {@link SimulatedFleet}. */
export interface SimulatedFleetOptions extends Omit<SimulatedRobotOptions, "robotId" | "endOf"> {
  readonly robots: number;
  /** The robots are named `<prefix>-0001` and so on. */
  readonly prefix: string;
  /** Number of robots, from the first, on which programs with `SIMULATE_FAILS=true` fail. */
  readonly failing: number;
}

/** Robots in one process. */
export class SimulatedFleet {
  readonly robots: readonly SimulatedRobot[];

  constructor({ robots, prefix, failing, ...options }: SimulatedFleetOptions) {
    this.robots = Array.from(
      { length: robots },
      (_, index) =>
        new SimulatedRobot({
          ...options,
          robotId: `${prefix}-${String(index + 1).padStart(4, "0")}`,
          endOf: (order) => endOf(order, index < failing),
        }),
    );
  }

  /** Connects all robots. */
  start(): void {
    for (const robot of this.robots) robot.connect();
  }

  /** Number of running programs. */
  get running(): number {
    return this.robots.reduce((sum, robot) => sum + robot.running, 0);
  }

  /** Ends all robots. */
  async stop(): Promise<void> {
    await Promise.all(this.robots.map((robot) => robot.stop()));
  }
}

function endOf({ env }: TaskOrder, isFailing: boolean): ProgramEnd {
  if (isFailing && env[simulationVariables.fails] === "true") return { afterMs: 0, exitCode: 1 };
  const run = env[simulationVariables.run];
  if (run === undefined || !isDuration(run)) return undefined;
  return { afterMs: parseDuration(run), exitCode: Number(env[simulationVariables.exit] ?? 0) || 0 };
}
