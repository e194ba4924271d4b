import { type DeepReadonly, isStatusError } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { LogsAction } from "../api/tool-actions.ts";
import type { ChosenPod } from "./choose-pod.ts";
import { OutputTail } from "./output-tail.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolResult } from "./tool-report.ts";

/** Inputs of {@link readLogs}. */
export interface LogsRun {
  readonly client: Client;
  readonly pod: ChosenPod;
  readonly logs: DeepReadonly<LogsAction>;
  readonly giveUpAtMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Maximum length of a line that is compared with the pattern. */
const maxLineLength = 65_536;

/**
 * Reads the log of a container, and follows it until a line matches `contains`.
 *
 * **Errors**: a {@link ToolError} if no line matches in time, or if the log cannot be read.
 */
export async function readLogs({ client, pod, logs, giveUpAtMs, clock, signal }: LogsRun): Promise<ToolResult> {
  const { container = pod.containers[0] ?? "", contains, previous, tailLines } = logs;
  const limit = new AbortController();
  const timer =
    contains === undefined ? undefined : clock.setTimer(Math.max(giveUpAtMs - clock.now(), 1_000), () => limit.abort());
  const output = new OutputTail();
  const lines = contains === undefined ? undefined : new MatchingLines(contains);
  try {
    const log = await client.podLog(pod, {
      container,
      ...(contains === undefined ? {} : { follow: true }),
      ...(previous === undefined ? {} : { previous }),
      ...(tailLines === undefined ? {} : { tailLines }),
      signal: AbortSignal.any([signal, limit.signal]),
    });
    for await (const chunk of log) {
      output.add(chunk);
      if (lines?.add(chunk) === true) return resultOf(output);
    }
    if (lines === undefined || lines.end()) return resultOf(output);
    throw new ToolError("CheckFailed", `${lines.problem(pod, container)}; the container has ended`);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ToolError) throw error;
    if (limit.signal.aborted && lines !== undefined)
      throw new ToolError("Timeout", lines.problem(pod, container), { cause: error });
    if (isStatusError(error, "Forbidden")) throw new ToolError("Forbidden", error.message, { cause: error });
    if (isStatusError(error)) throw new ToolError("LogsFailed", error.message, { cause: error });
    throw error;
  } finally {
    timer?.cancel();
  }
}

const resultOf = (output: OutputTail): ToolResult => ({ exitCode: 0, ...output.result(), stderr: "" });

/** Compares the lines of a log with a pattern. */
class MatchingLines {
  readonly #source: string;
  readonly #pattern: ReturnType<typeof compilePattern>;
  readonly #decoder = new TextDecoder();
  #rest = "";
  #last = "";

  constructor(source: string) {
    this.#source = source;
    this.#pattern = compilePattern(source);
  }

  /** Adds a part of the log. Returns whether one of its lines matches. */
  add(chunk: Uint8Array): boolean {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = (lines.pop() ?? "").slice(-maxLineLength);
    this.#last = lines.at(-1) ?? this.#last;
    return lines.some((line) => this.#pattern.test(line));
  }

  /** Whether the last line, which has no line feed, matches. */
  end(): boolean {
    return this.#rest !== "" && this.#pattern.test(this.#rest);
  }

  problem(pod: ChosenPod, container: string): string {
    const last = (this.#rest || this.#last).slice(0, 256);
    const end = last === "" ? "it is empty" : `its last line is ${JSON.stringify(last)}`;
    return `no line of the log of container ${container} of Pod ${pod.name} matches ${this.#source}; ${end}`;
  }
}
