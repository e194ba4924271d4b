/** What `pg_controldata` says about data that no server uses. */
export interface ControlData {
  /** Whether the server was shut down as a primary. Otherwise its log must be applied first. */
  readonly isShutDown: boolean;
  readonly hasChecksums: boolean;
  readonly timeline: number;
  /** The segment of the log in which its last checkpoint begins. */
  readonly segment: string;
  /** End of the log, in bytes. */
  readonly position: number;
}

/** Parses the output of `pg_controldata`, in English. */
export function parseControlData(text: string): ControlData {
  const read = (name: string): string => new RegExp(`^${name}: +(.*)$`, "m").exec(text)?.[1] ?? "";
  const [high = "0", low = "0"] = read("Latest checkpoint location").split("/");
  return {
    isShutDown: read("Database cluster state") === "shut down",
    hasChecksums: Number(read("Data page checksum version")) > 0,
    timeline: Number(read("Latest checkpoint's TimeLineID")),
    segment: read("Latest checkpoint's REDO WAL file"),
    position: Number.parseInt(high, 16) * 2 ** 32 + Number.parseInt(low, 16),
  };
}
