/** Whether labels are selected. */
export type LabelMatcher = (labels: Readonly<Record<string, string>>) => boolean;

const known = new Map<string, LabelMatcher>();
const longestKnown = 1024;

/** A `kubectl -l` expression as a function; the same text is parsed once. */
export function parseLabelSelector(text: string): LabelMatcher {
  let matcher = known.get(text);
  if (matcher === undefined) {
    matcher = parse(text);
    if (known.size >= longestKnown) known.clear();
    known.set(text, matcher);
  }
  return matcher;
}

const requirement =
  /^\s*(?:!\s*(?<absent>[^\s=!,()]+)|(?<key>[^\s=!,()]+)\s*(?:(?<equals>==?|!=)\s*(?<value>[^\s=!,()]*)|\s(?<set>in|notin)\s*\((?<values>[^()]*)\))?)\s*$/;

function parse(text: string): LabelMatcher {
  const parts = text.split(/,(?![^(]*\))/).filter((part) => part.trim() !== "");
  const matchers = parts.map((part): LabelMatcher => {
    const groups = requirement.exec(part)?.groups;
    if (groups === undefined)
      throw new TypeError(`label selector ${JSON.stringify(text)}: cannot read ${JSON.stringify(part.trim())}`);
    const { absent, key = "", equals, value = "", set, values = "" } = groups;
    if (absent !== undefined) return (labels) => !Object.hasOwn(labels, absent);
    const own = (labels: Readonly<Record<string, string>>): string | undefined =>
      Object.hasOwn(labels, key) ? labels[key] : undefined;
    if (equals === "!=") return (labels) => own(labels) !== value;
    if (equals !== undefined) return (labels) => own(labels) === value;
    if (set === undefined) return (labels) => own(labels) !== undefined;
    const wanted = new Set(values.split(",").map((each) => each.trim()));
    return (labels) => {
      const actual = own(labels);
      return actual === undefined ? set === "notin" : wanted.has(actual) === (set === "in");
    };
  });
  return (labels) => matchers.every((matches) => matches(labels));
}
