import type { Taint } from "@keelson/cluster";
import { labelValueFaults, qualifiedNameFaults } from "@keelson/api-machinery/validation";
import { UsageError } from "@keelson/operator/flags";

const effects: readonly string[] = ["NoSchedule", "PreferNoSchedule", "NoExecute"] satisfies readonly Taint["effect"][];

/** Parses `KEY[=VALUE]:EFFECT`. **Errors**: {@link UsageError} with the value and what is allowed. */
export function parseTaint(text: string): Taint {
  const [, key = "", value, effect = ""] = /^([^=:]+)(?:=([^:]*))?:(.*)$/.exec(text) ?? [];
  const fault =
    (key === "" ? "must be KEY[=VALUE]:EFFECT" : undefined) ??
    qualifiedNameFaults(key)[0] ??
    (value === undefined ? undefined : labelValueFaults(value)[0]) ??
    (isEffect(effect) ? undefined : `effect must be one of ${effects.join(", ")}`);
  if (fault !== undefined || !isEffect(effect)) throw new UsageError(`--taint: ${JSON.stringify(text)}: ${fault}`);
  return { key, ...(value === undefined ? {} : { value }), effect };
}

const isEffect = (text: string): text is Taint["effect"] => effects.includes(text);
