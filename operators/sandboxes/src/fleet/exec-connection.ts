import type { ExecFrame } from "../protocol/exec-frames.ts";

/** The surroundings of a command. Default: those of the sandbox. */
export interface ExecSettings {
  /** Added to the variables of the sandbox. */
  readonly env?: Readonly<Record<string, string>>;
  readonly workingDir?: string;
  /** A name in the sandbox's root, a uid or uid:gid. */
  readonly user?: string;
}

/** A connection to a command or a port; the last frame has the exit status of a command. */
export interface ExecConnection {
  readonly frames: AsyncIterable<ExecFrame>;
  send(channel: number, data: Uint8Array): Promise<void>;
  close(): void;
}
