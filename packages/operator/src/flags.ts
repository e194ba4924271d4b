import { isDuration, parseDuration } from "@keelson/api-machinery/time";

/** A command-line flag as data. The command line, `--help` and the docs are generated from it. */
export interface FlagDefinition {
  /** Without dashes: `broker-url`. */
  readonly name: string;
  /** One-letter alias, without its dash: `n`. */
  readonly short?: string;
  /** Placeholder of the value (`URL`). A flag without one is a switch. */
  readonly value?: string;
  readonly description: string;
  /** All valid values. The command line rejects others before the command runs. */
  readonly choices?: readonly string[];
  /** Forms of valid values, such as `json` and `jsonpath=TEMPLATE`, for `--help` and completion. The flag itself checks the value. */
  readonly forms?: readonly string[];
  readonly default?: string;
  readonly required?: boolean;
  /** May be passed more than once. */
  readonly repeatable?: boolean;
  /** Name of the endpoint that listens on this port (see `RunningServer.endpoints`). */
  readonly endpoint?: string;
  /** Environment variable that is used if the flag is not passed. */
  readonly env?: string;
}

/** Values of flags by name: a string, a list for a repeatable flag, true for a switch. */
export type FlagValues = Readonly<Record<string, string | readonly string[] | true | undefined>>;

/** Invalid usage: a flag or argument is missing or wrong. The command line prints the message and exits with status 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "Usage";
}

/** Whether `error` is a {@link UsageError}, also one of another copy of this package. */
export function isUsageError(error: unknown): error is UsageError {
  return error instanceof Error && "code" in error && error.code === "Usage" && error.name === "UsageError";
}

/** A flag with its parser: pass it as a {@link FlagDefinition}, then read its value from what the command line parsed. */
export interface Flag<T> extends FlagDefinition {
  /**
   * The value, or the default. An empty string counts as not passed.
   *
   * **Errors**: {@link UsageError} if the value is invalid, or if a required flag is missing.
   */
  read(flags: FlagValues): T;
}

/** Options of a flag with a value. */
export type FlagOptions = Omit<FlagDefinition, "repeatable" | "choices" | "value">;

type Read<T, O> = O extends { readonly default: string } | { readonly required: true } ? T : T | undefined;

/** Declares a flag with any text as its value. */
export function textFlag<const O extends FlagOptions & { readonly value: string }>(options: O): Flag<Read<string, O>> {
  return flagOf(options, (text) => text);
}

/** Declares a flag with a whole number as its value. `min` defaults to 0, `max` to 2^31 - 1. */
export function countFlag<
  const O extends FlagOptions & { readonly value: string; readonly min?: number; readonly max?: number },
>({ min = 0, max = 2 ** 31 - 1, ...options }: O): Flag<Read<number, O>> {
  const allowed = max < 2 ** 31 - 1 ? `must be between ${min} and ${max}` : `must be a whole number of at least ${min}`;
  return flagOf(options, (text) => {
    const number = Number(text);
    return /^\d{1,10}$/.test(text) && number >= min && number <= max ? number : invalid(options, text, allowed);
  });
}

/** Declares a flag with a port as its value: 0, for any free port, to 65535. `min: 1` excludes 0. */
export function portFlag<const O extends FlagOptions & { readonly min?: 0 | 1 }>({
  min = 0,
  ...options
}: O): Flag<Read<number, O>> {
  const allowed = min === 0 ? "must be between 0 (any free port) and 65535" : "must be between 1 and 65535";
  return flagOf({ ...options, value: "PORT" }, (text) => {
    const port = Number(text);
    return /^\d{1,5}$/.test(text) && port >= min && port <= 65_535 ? port : invalid(options, text, allowed);
  });
}

/** Declares a flag whose value is one of `choices`. */
export function choiceFlag<
  const T extends string,
  const O extends FlagOptions & { readonly value: string; readonly choices: readonly T[] },
>(options: O): Flag<Read<O["choices"][number], O>> {
  const { choices } = options;
  return flagOf(options, (text): O["choices"][number] => {
    return choices.find((choice) => choice === text) ?? invalid(options, text, `must be one of ${choices.join(", ")}`);
  });
}

/**
 * Declares a flag with a duration as its value, read in milliseconds: `90s`, `1m30s`. `bareUnit` is the unit of a value without one; by
 * default the unit is required. `minMs` defaults to 0, and there is no maximum by default.
 */
export function durationFlag<
  const O extends FlagOptions & {
    readonly value?: string;
    readonly bareUnit?: "s" | "ms";
    readonly minMs?: number;
    readonly maxMs?: number;
  },
>({ bareUnit, minMs = 0, maxMs = Number.POSITIVE_INFINITY, ...options }: O): Flag<Read<number, O>> {
  return flagOf({ value: "DURATION", ...options }, (text) => {
    const full = bareUnit !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? `${text}${bareUnit}` : text;
    if (!isDuration(full)) return invalid(options, text, "must be a duration such as 90s or 1m30s");
    const durationMs = parseDuration(full);
    if (durationMs < minMs) return invalid(options, text, `must be at least ${minMs / 1000}s`);
    if (durationMs > maxMs) return invalid(options, text, `must be at most ${maxMs / 1000}s`);
    return durationMs;
  });
}

/** Declares a flag without a value, read as whether it was passed. */
export function switchFlag(options: Omit<FlagOptions, "default" | "required">): Flag<boolean> {
  return { ...options, read: (flags) => flags[options.name] === true };
}

/** Declares a flag that may be repeated, read as the list of its values. */
export function listFlag(
  options: Omit<FlagOptions, "default" | "required"> & { readonly value: string },
): Flag<readonly string[]> {
  return {
    ...options,
    repeatable: true,
    read(flags) {
      const value = flags[options.name];
      if (value === undefined || value === true) return [];
      return typeof value === "string" ? [value] : value;
    },
  };
}

/** Declares a repeatable flag with values such as `KEY=VALUE`, read as pairs in the order passed. The value may be empty, the key may not. */
export function pairsFlag(
  options: Omit<FlagOptions, "default" | "required"> & { readonly value: string },
): Flag<readonly (readonly [key: string, value: string])[]> {
  const list = listFlag(options);
  return {
    ...list,
    read: (flags) =>
      list.read(flags).map((pair) => {
        const equals = pair.indexOf("=");
        if (equals < 1) return invalid(options, pair, `must be of the form ${options.value}`);
        return [pair.slice(0, equals), pair.slice(equals + 1)] as const;
      }),
  };
}

/** `--log-level`. */
export const logLevelFlag = choiceFlag({
  name: "log-level",
  value: "LEVEL",
  description: "minimum level of log lines",
  choices: ["debug", "info", "warn", "error", "silent"],
  default: "info",
});

/** A {@link UsageError} for a flag, in the form of all others: `--np: invalid value "0": must be ...`. */
export function invalidFlag({ name }: Pick<FlagDefinition, "name">, value: string, allowed: string): UsageError {
  return new UsageError(`--${name}: invalid value ${JSON.stringify(value)}: ${allowed}`);
}

/** `--verbose` of programs that run for long and have {@link logLevelFlag}. */
export const verboseFlag = switchFlag({ name: "verbose", short: "v", description: "same as --log-level debug" });

/** The level of {@link logLevelFlag}, or `debug` with {@link verboseFlag}. */
export function readLogLevel(flags: FlagValues): ReturnType<typeof logLevelFlag.read> {
  return verboseFlag.read(flags) ? "debug" : logLevelFlag.read(flags);
}

function invalid(flag: Pick<FlagDefinition, "name">, value: string, allowed: string): never {
  throw invalidFlag(flag, value, allowed);
}

function flagOf<T, O>(definition: FlagDefinition, parse: (text: string) => T): Flag<Read<T, O>> {
  return {
    ...definition,
    read(flags) {
      const passed = flags[definition.name];
      const text = typeof passed === "string" && passed !== "" ? passed : definition.default;
      if (text !== undefined) return parse(text);
      if (definition.required) throw new UsageError(`--${definition.name}: required`);
      return undefined as Read<T, O>;
    },
  };
}
