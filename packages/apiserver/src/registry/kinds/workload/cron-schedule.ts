/** The five fields of a schedule and their ranges. */
const fields: readonly { readonly least: number; readonly most: number; readonly names: readonly string[] }[] = [
  { least: 0, most: 59, names: [] },
  { least: 0, most: 23, names: [] },
  { least: 1, most: 31, names: [] },
  { least: 1, most: 12, names: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"] },
  { least: 0, most: 7, names: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const macros = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/** Why a text is not a CronJob schedule (five fields, or a macro); undefined if it is one. */
export function cronScheduleFault(schedule: string): string | undefined {
  if (schedule.startsWith("@")) {
    if (macros.includes(schedule) || /^@every (?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/.test(schedule)) return undefined;
    return `unrecognized descriptor: ${schedule}`;
  }
  const parts = schedule.trim().split(/\s+/);
  if (parts.length !== fields.length) return `expected exactly 5 fields, found ${parts.length}: [${parts.join(" ")}]`;
  for (const [index, part] of parts.entries()) {
    const field = fields[index];
    if (field === undefined) continue;
    for (const term of part.split(",")) {
      const fault = termFault(term, field);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

function termFault(term: string, { least, most, names }: (typeof fields)[number]): string | undefined {
  const match = /^(\*|\?|[A-Za-z0-9]+)(?:-([A-Za-z0-9]+))?(?:\/(\d+))?$/.exec(term);
  if (match === null) return `failed to parse: ${term}`;
  const [, from = "", to, step] = match;
  if (step !== undefined && Number(step) === 0) return `step of range should be a positive number: ${term}`;
  if (from === "*" || from === "?") return to === undefined ? undefined : `failed to parse: ${term}`;
  const first = numberOf(from, names, least);
  const last = to === undefined ? first : numberOf(to, names, least);
  if (first === undefined || last === undefined) return `failed to parse int from ${term}`;
  if (first < least) return `beginning of range (${first}) below minimum (${least}): ${term}`;
  if (last > most) return `end of range (${last}) above maximum (${most}): ${term}`;
  return first > last ? `beginning of range (${first}) beyond end of range (${last}): ${term}` : undefined;
}

function numberOf(text: string, names: readonly string[], least: number): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  const index = names.indexOf(text.toLowerCase());
  return index < 0 ? undefined : index + least;
}
