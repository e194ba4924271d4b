import type { ProgramMetric } from "@keelson/middleware-agent";

/** A row of `pg_settings`. */
export interface Setting {
  readonly name: string;
  readonly setting: string;
  readonly unit: string | null;
  readonly vartype: string;
  readonly short_desc: string;
}

/** Statement that reads the settings with values that are numbers. */
export const settingsText =
  "SELECT name, setting, unit, vartype, short_desc FROM pg_settings WHERE vartype IN ('bool', 'integer', 'real')";

const kibi = 1_024;
const sizes: Readonly<Record<string, number>> = { B: 1, kB: kibi, MB: kibi ** 2, GB: kibi ** 3, TB: kibi ** 4 };
const times: Readonly<Record<string, number>> = { us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3_600, d: 86_400 };

/**
 * The settings as postgres_exporter names them: `pg_settings_<name>`, in bytes or seconds if the setting has a unit. Values that are not
 * numbers are left out. Pure.
 */
export function settingMetrics(settings: readonly Setting[]): readonly ProgramMetric[] {
  return settings.flatMap(({ name, setting, unit, vartype, short_desc: description }) => {
    const { suffix, factor } = unitOf(unit);
    const value = vartype === "bool" ? Number(setting === "on") : Number(setting);
    if (Number.isNaN(value)) return [];
    // -1 means disabled or unlimited, whatever the unit.
    const samples = [{ labels: {}, value: value === -1 ? value : value * factor }];
    const metric = `pg_settings_${name.replaceAll(/[^a-zA-Z0-9_]/g, "_")}${suffix}`;
    return [{ name: metric, help: `Server Parameter: ${name}. ${description}`, type: "gauge" as const, samples }];
  });
}

function unitOf(unit: string | null): { readonly suffix: string; readonly factor: number } {
  const [, count = "", name = ""] = /^(\d*)([a-zA-Z]+)$/.exec(unit ?? "") ?? [];
  const multiple = count === "" ? 1 : Number(count);
  const [bytes, seconds] = [sizes[name], times[name]];
  if (bytes !== undefined) return { suffix: "_bytes", factor: multiple * bytes };
  return seconds === undefined ? { suffix: "", factor: 1 } : { suffix: "_seconds", factor: multiple * seconds };
}
