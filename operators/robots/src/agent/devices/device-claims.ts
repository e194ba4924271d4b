import type { Program } from "@keelson/execution";
import type { RobotPolicy } from "../policy/robot-policy.ts";
import { deviceNumber } from "./read-devices.ts";
import { sharesOf, type TaskDevice } from "./task-devices.ts";

/** Metadata of a program that lists the paths of its devices. */
export const devicesMetadata = "devices";

/** The programs of this robot. */
interface Programs {
  list(): readonly Pick<Program, "id" | "spec" | "state">[];
}

/**
 * Keeps two programs of this robot from having the same device, unless the policy permits it. The server counts devices too; this also
 * holds when the server is wrong about what is running here.
 */
export class DeviceClaims {
  readonly #programs: Programs;
  /** Devices of programs that are being started, by program. */
  readonly #starting = new Map<string, readonly string[]>();

  constructor(programs: Programs) {
    this.#programs = programs;
  }

  /** Claims devices for a program until {@link release}. Returns why not, if too many others have one. */
  claim(program: string, devices: readonly TaskDevice[], policy: Pick<RobotPolicy, "devices">): string | undefined {
    const users = this.#users(program);
    for (const { name, ids } of devices) {
      for (const id of ids) {
        const [user, ...more] = users.get(keyOf(id)) ?? [];
        if (user !== undefined && more.length + 1 >= sharesOf(policy, name, id))
          return `device ${id} is used by the program ${user}`;
      }
    }
    if (devices.length > 0)
      this.#starting.set(
        program,
        devices.flatMap(({ ids }) => ids),
      );
    return undefined;
  }

  /** Ends the claim of a program that was started, or could not be. While it runs, it keeps its devices. */
  release(program: string): void {
    this.#starting.delete(program);
  }

  /** Programs that have each device, apart from one, by {@link keyOf}. */
  #users(except: string): ReadonlyMap<string, readonly string[]> {
    const claims = new Map(this.#starting);
    for (const { id, spec, state } of this.#programs.list()) {
      const { [devicesMetadata]: devices = "" } = spec.metadata ?? {};
      if (devices !== "" && state.kind !== "exited") claims.set(id, devices.split(" "));
    }
    claims.delete(except);
    const users = new Map<string, string[]>();
    for (const [program, ids] of claims) {
      for (const key of ids.map(keyOf)) users.set(key, [...(users.get(key) ?? []), program]);
    }
    return users;
  }
}

/** A device with several paths is one device. */
const keyOf = (path: string): string => deviceNumber(path) ?? path;
