import { readJson, writeJson } from "../json-file.ts";
import type { LeaseRecord } from "./lease.ts";
import type { Members } from "./members.ts";

/** What an agent persists in its volume. */
export interface StoredQuorum {
  readonly members: Members;
  readonly record?: LeaseRecord;
}

/** Persists {@link StoredQuorum}. */
export interface QuorumStore {
  read(): Promise<StoredQuorum | undefined>;
  /** `isDurable`: the value survives a crash of the machine. */
  write(value: StoredQuorum, isDurable: boolean): Promise<void>;
}

/** Creates a {@link QuorumStore} in a file. */
export function createQuorumStore(file: string): QuorumStore {
  return {
    // Only this store writes the file.
    read: async () => (await readJson(file)) as StoredQuorum | undefined,
    write: (value, isDurable) => writeJson(file, value, isDurable),
  };
}
