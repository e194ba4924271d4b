import { isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { parseFieldSelector, parseLabelSelector } from "@keelson/api-machinery/selectors";
import { specOf, text, texts } from "./review-fields.ts";

/**
 * The `status.evaluationError` of an access review whose selectors cannot be understood, or only in part: they are ANDed, so what is
 * ignored makes the check stricter, not wrong. `""` without errors.
 */
export function selectorErrors(object: KubernetesObject): string {
  const attributes = specOf(object)["resourceAttributes"];
  if (!isJsonObject(attributes)) return "";
  return [
    selectorError("fieldSelector", attributes["fieldSelector"], parseFieldSelector, isKnownFieldRequirement),
    selectorError("labelSelector", attributes["labelSelector"], parseLabelSelector, isKnownLabelRequirement),
  ]
    .filter((error) => error !== "")
    .join("; ");
}

function selectorError(
  name: string,
  selector: unknown,
  parse: (text: string) => unknown,
  isKnown: (operator: string, values: readonly string[]) => boolean,
): string {
  if (!isJsonObject(selector)) return "";
  const path = `spec.resourceAttributes.${name}`;
  const requirements = Array.isArray(selector["requirements"]) ? selector["requirements"].filter(isJsonObject) : [];
  if (requirements.length === 0)
    return parses(text(selector, "rawSelector"), parse) ? "" : `${path} ignored due to parse error`;
  const known = requirements.filter((requirement) => isKnown(text(requirement, "operator"), texts(requirement, "values")));
  if (known.length === requirements.length) return "";
  return known.length > 0 ? `${path} partially ignored due to parse error` : `${path} ignored due to parse error`;
}

/** Maximum length of a selector. A list with a longer one does not fit into the headers of a request. */
const maxSelectorLength = 64 * 1024;

function parses(raw: string, parse: (text: string) => unknown): boolean {
  if (raw.length > maxSelectorLength) return false;
  try {
    parse(raw);
    return true;
  } catch {
    return false;
  }
}

/** A field selector has one value per field, and does not ask whether a field exists. */
function isKnownFieldRequirement(operator: string, values: readonly string[]): boolean {
  return (operator === "In" || operator === "NotIn") && values.length === 1;
}

function isKnownLabelRequirement(operator: string): boolean {
  return ["In", "NotIn", "Exists", "DoesNotExist"].includes(operator);
}
