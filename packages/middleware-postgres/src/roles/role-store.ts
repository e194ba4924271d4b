import { join } from "node:path";
import { AgentError, readJson, writeJson } from "@keelson/middleware-agent";
import type { AssignmentRecord } from "./assignment-record.ts";

/** The last assignment of a server, in its volume. */
export class RoleStore {
  readonly #file: string;
  #record: AssignmentRecord | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(dataDir: string) {
    this.#file = join(dataDir, "keelson-role.json");
  }

  get record(): AssignmentRecord | undefined {
    return this.#record;
  }

  async load(): Promise<void> {
    this.#record = (await readJson(this.#file)) as AssignmentRecord | undefined;
  }

  /** Throws if `assignment` is not the record: another role was assigned in the meantime, or its own is older. */
  require(assignment: AssignmentRecord): void {
    if (this.#record === assignment) return;
    throw new AgentError("ProgramExited", `epoch ${assignment.epoch}: another role was assigned in the meantime`);
  }

  /** Writes one record after the other. With `expected`, does nothing if another assignment was recorded in the meantime. */
  save(next: AssignmentRecord, expected?: AssignmentRecord): Promise<void> {
    const saved = this.#saving.then(async () => {
      if (this.#record !== (expected ?? this.#record)) return;
      // An action that began earlier must not undo a newer assignment.
      if (this.#record !== undefined && next.epoch < this.#record.epoch) return;
      await writeJson(this.#file, next);
      this.#record = next;
    });
    this.#saving = saved.catch(() => undefined);
    return saved;
  }
}
