import { parseLabelSelector, type Selector } from "@keelson/api-machinery/selectors";

const parsed = new Map<string, Selector>();
const longestParsed = 1024;

/** {@link parseLabelSelector} that parses the same text once: reconciles ask for the same few selectors again and again. */
export function labelSelectorOf(text: string): Selector {
  let selector = parsed.get(text);
  if (selector === undefined) {
    selector = parseLabelSelector(text);
    if (parsed.size >= longestParsed) parsed.clear();
    parsed.set(text, selector);
  }
  return selector;
}
