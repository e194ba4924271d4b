import { isJsonObject, setOwn } from "@keelson/api-machinery";
import { loadNormalisation } from "./corpus.ts";
import { removeAt } from "./document-path.ts";

/** A mutable JSON object. */
export type Fields = Record<string, unknown>;

const lists = loadNormalisation();

/** A copy of a response body, or of a part of it, without what may differ between conforming servers. */
export function normalise(value: unknown, withManagedFields: boolean, isBuiltIn = true): unknown {
  if (Array.isArray(value)) return value.map((item) => normalise(item, withManagedFields, isBuiltIn));
  if (!isJsonObject(value)) return value;
  const isBuiltInHere =
    typeof value["apiVersion"] === "string" && "kind" in value ? isBuiltInGroup(value["apiVersion"]) : isBuiltIn;
  const result: Fields = {};
  for (const [key, child] of Object.entries(value)) {
    if (lists.droppedKeys.includes(key) || isAbsent(key, child, isBuiltInHere)) continue;
    if (key === "managedFields") {
      if (withManagedFields && Array.isArray(child) && child.length > 0) result[key] = normaliseManagedFields(child);
    } else if (lists.unorderedKeys.includes(key) && isTexts(child)) result[key] = [...child].sort();
    else setOwn(result, key, normalise(child, withManagedFields, isBuiltInHere));
  }
  return ofKind(result);
}

function isFields(value: unknown): value is Fields {
  return isJsonObject(value);
}

/** Whether an object is ignored everywhere. */
export function isIgnoredObject(value: unknown): boolean {
  const metadata = isJsonObject(value) ? value["metadata"] : undefined;
  return isJsonObject(metadata) && lists.ignoredObjectNames.includes(String(metadata["name"]));
}

/** A header's value in lower case, without blanks. */
export function normaliseHeader(value: string | undefined): string {
  return (value ?? "").replaceAll(/\s+/g, "").toLowerCase();
}

function isBuiltInGroup(apiVersion: string): boolean {
  const group = apiVersion.split("/", 1)[0] ?? "";
  return !group.includes(".") || group.endsWith(".k8s.io");
}

function isAbsent(key: string, value: unknown, isBuiltIn: boolean): boolean {
  return value === null && (lists.nullIsAbsent.includes(key) || (isBuiltIn && lists.nullIsAbsentInBuiltIns.includes(key)));
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function ofKind(object: Fields): Fields {
  const kind = object["kind"];
  if (typeof kind !== "string") return object;
  if (kind === "Status" && object["apiVersion"] === "v1") return normaliseStatus(object);
  if (kind === "Table" && String(object["apiVersion"]).startsWith("meta.k8s.io/")) return normaliseTable(object);
  dropByKind(object, kind);
  if (kind.endsWith("List") && "items" in object) {
    const items = Array.isArray(object["items"]) ? object["items"].filter((item) => !isIgnoredObject(item)) : object["items"];
    object["items"] = items ?? [];
    for (const item of Array.isArray(items) ? items : []) {
      if (isJsonObject(item)) dropByKind(item, kind.slice(0, -"List".length));
    }
    const metadata = object["metadata"];
    if (isJsonObject(metadata) && metadata["continue"] === "") delete metadata["continue"];
  }
  return object;
}

function dropByKind(object: Fields, kind: string): void {
  for (const path of Object.hasOwn(lists.droppedByKind, kind) ? (lists.droppedByKind[kind] ?? []) : []) removeAt(object, path);
  const metadata = object["metadata"];
  if (kind !== "Namespace" || !isJsonObject(metadata)) return;
  if (isJsonObject(metadata["labels"]) && Object.keys(metadata["labels"]).length === 0) delete metadata["labels"];
}

function normaliseManagedFields(entries: readonly unknown[]): unknown[] {
  const result = entries.map((entry) => {
    if (!isJsonObject(entry)) return {};
    const kept = Object.entries(entry).filter(([key]) => !lists.managedFieldsEntryDropped.includes(key));
    return Object.fromEntries(kept.map(([key, value]) => [key, key === "fieldsV1" ? collapse(value) : value]));
  });
  const sortKey = (entry: Fields): string[] => [
    ...["manager", "operation", "apiVersion"].map((key) => String(entry[key] ?? "")),
    sortedJson(entry),
  ];
  return result.sort((a, b) => compareTexts(sortKey(a), sortKey(b)));
}

/** Fields that some versions of Kubernetes track as one field and others as several. */
function collapse(fields: unknown): unknown {
  if (!isJsonObject(fields)) return fields;
  const result: Fields = {};
  for (const [key, value] of Object.entries(fields)) {
    if (lists.fieldsV1Collapsed.includes(key)) result[key] = {};
    else if (lists.fieldsV1ItemsCollapsed.includes(key) && isJsonObject(value)) {
      result[key] = Object.fromEntries(
        Object.keys(value)
          .filter((item) => item !== ".")
          .map((item) => [item, {}]),
      );
    } else setOwn(result, key, collapse(value));
  }
  return result;
}

function normaliseStatus({ metadata: _metadata, ...status }: Fields): Fields {
  moveMessage(status);
  const details: unknown = status["details"];
  if (!isFields(details)) return status;
  if (Array.isArray(details["causes"])) details["causes"] = normaliseCauses(details["causes"], details);
  if (Object.keys(details).length === 0) delete status["details"];
  return status;
}

/** Keeps messages for display; they are compared only on request. */
function moveMessage(value: Fields): void {
  if (!("message" in value)) return;
  value["$message"] = value["message"];
  delete value["message"];
}

function normaliseCauses(causes: readonly unknown[], details: Readonly<Fields>): Fields[] {
  const byIdentity = new Map<string, Fields>();
  for (const cause of causes) {
    if (!isFields(cause)) continue;
    moveMessage(cause);
    const reason = String(cause["reason"] ?? "");
    if (typeof cause["field"] === "string") {
      let field = cause["field"];
      if (details["kind"] === "CustomResourceDefinition") {
        for (const [from, to] of lists.crdCauseFieldPrefixes) field = field.replaceAll(from, to);
      }
      cause["field"] = field;
    }
    if (Object.hasOwn(lists.causeReasonClasses, reason)) cause["reason"] = lists.causeReasonClasses[reason];
    const identity = JSON.stringify([cause["field"] ?? "", cause["reason"] ?? ""]);
    if (!byIdentity.has(identity)) byIdentity.set(identity, cause);
  }
  const sortKey = (cause: Fields): string[] => [String(cause["field"] ?? ""), String(cause["reason"] ?? "")];
  return [...byIdentity.values()].sort((a, b) => compareTexts(sortKey(a), sortKey(b)));
}

const ageColumns = ["Age", "Last Seen", "First Seen", "Duration"];
const ageOrTime = /^(?:<unknown>|<invalid>|(?:-?\d+[ydhms])+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))$/;

function normaliseTable(table: Fields): Fields {
  const columns = Array.isArray(table["columnDefinitions"]) ? table["columnDefinitions"].filter(isJsonObject) : [];
  const rows = Array.isArray(table["rows"]) ? table["rows"].filter(isJsonObject) : [];
  const isAge = columns.map((column) => column["type"] === "date" || ageColumns.includes(String(column["name"])));
  for (const column of columns) {
    delete column["description"];
    if (column["name"] === "Restarts") delete column["type"];
  }
  for (const row of rows) {
    const cells = Array.isArray(row["cells"]) ? row["cells"] : [];
    row["cells"] = cells.map((cell, index) => {
      if (isAge[index] && typeof cell === "string" && ageOrTime.test(cell)) return "<age>";
      return typeof cell === "number" ? String(cell) : cell;
    });
  }
  return { ...table, rows: rows.filter((row) => !isIgnoredObject(row["object"])) };
}

/** Compares lists of strings lexicographically. */
export function compareTexts(a: readonly string[], b: readonly string[]): number {
  for (const [index, text] of a.entries()) {
    const other = b[index] ?? "";
    if (text !== other) return text < other ? -1 : 1;
  }
  return 0;
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_key, child: unknown) =>
    isJsonObject(child) ? Object.fromEntries(Object.entries(child).sort(([a], [b]) => (a < b ? -1 : 1))) : child,
  );
}
