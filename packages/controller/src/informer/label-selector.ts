import { parseLabelSelector, type Selector } from "@keelson/api-machinery/selectors";

const parsed = new Map<string, Selector>();
const maxParsed = 1024;

/** {@link parseLabelSelector} with a cache: reconciles use the same few selectors repeatedly. */
export function labelSelectorOf(text: string): Selector {
  let selector = parsed.get(text);
  if (selector === undefined) {
    selector = parseLabelSelector(text);
    if (parsed.size >= maxParsed) parsed.clear();
    parsed.set(text, selector);
  }
  return selector;
}
