import { writeFileAtomic } from "../../files/atomic-file.ts";
import { type ProgramRecord, serialiseRecord } from "./program-record.ts";

/** A program's state.json. Writes happen one after the other, in the order of the calls. */
export class ProgramStateFile {
  readonly #path: string;
  #record: ProgramRecord = { kind: "starting" };
  #saving: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  /** The last record that was read or passed to {@link save}. */
  get record(): ProgramRecord {
    return this.#record;
  }

  /** Sets the record that an earlier supervisor wrote. */
  adopt(record: ProgramRecord): void {
    this.#record = record;
  }

  /** Writes a record. A durable write survives a crash of the machine. Rejects if the file cannot be written. */
  save(record: ProgramRecord, { isDurable }: { readonly isDurable: boolean }): Promise<void> {
    this.#record = record;
    this.#saving = this.#saving
      .catch(() => {})
      .then(() => writeFileAtomic(this.#path, serialiseRecord(record), { durable: isDurable }));
    return this.#saving;
  }

  /** Resolves when no write is in progress. */
  async settled(): Promise<void> {
    await this.#saving.catch(() => {});
  }
}
