import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { PrinterColumn } from "@keelson/api-machinery/schema";
import type { IncludeObject } from "../http/encode.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { compileColumnPath, type ColumnPath, printResult } from "./column-path.ts";
import { age } from "./human-duration.ts";

/** A column of a Table (meta/v1 TableColumnDefinition). */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  readonly priority: number;
}

/** A row of a Table (meta/v1 TableRow). */
export interface TableRow {
  readonly cells: readonly unknown[];
  readonly conditions?: readonly unknown[];
  readonly object: unknown;
}

const nameColumn: TableColumn = {
  name: "Name",
  type: "string",
  format: "name",
  description: "The name of the object. It is unique within its kind and namespace.",
  priority: 0,
};

/**
 * Creates the columns and rows of a meta/v1 Table. The cells of built-in kinds come from the kind's `cells`, others from JSONPath. Ages are
 * relative to `now` (milliseconds since the epoch).
 */
export function toTable(
  resource: ServedResource,
  objects: readonly DeepReadonly<KubernetesObject>[],
  options: { readonly includeObject: IncludeObject; readonly now: number },
): { readonly columnDefinitions: readonly TableColumn[]; readonly rows: readonly TableRow[] } {
  const layout = layoutOf(resource);
  return {
    columnDefinitions: layout.columns,
    rows: objects.map((object) => ({
      cells: layout.cells(object, options.now),
      ...conditionsOf(resource, object),
      object: rowObject(object, options.includeObject),
    })),
  };
}

function conditionsOf(resource: ServedResource, object: DeepReadonly<KubernetesObject>): Pick<TableRow, "conditions"> {
  const conditions = resource.rowConditions?.(object) ?? [];
  return conditions.length === 0 ? {} : { conditions };
}

interface Layout {
  readonly columns: readonly TableColumn[];
  cells(object: DeepReadonly<KubernetesObject>, now: number): readonly unknown[];
}

/** Memoizes the compiled paths of each resource, which is immutable. */
const layouts = new WeakMap<ServedResource, Layout>();

function layoutOf(resource: ServedResource): Layout {
  let layout = layouts.get(resource);
  if (layout === undefined) {
    layout = createLayout(resource);
    layouts.set(resource, layout);
  }
  return layout;
}

function createLayout(resource: ServedResource): Layout {
  const own = resource.columns.map(describeColumn);
  // A kind may position the name column itself: Events show it last.
  // A column of format "name" may show another object (Attacher), so the column's own name counts as well.
  const hasName = resource.columns.some(
    ({ name, format }) => name === "Name" && format === "name" && resource.cells !== undefined,
  );
  const columns = hasName ? own : [nameColumn, ...own];
  const { cells } = resource;
  if (cells !== undefined) {
    return {
      columns,
      cells: (object, now) => (hasName ? cells(object, now) : [object.metadata.name ?? "", ...cells(object, now)]),
    };
  }
  const readers = resource.columns.map((column) => cellReader(column, resource.origin));
  return { columns, cells: (object, now) => [object.metadata.name ?? "", ...readers.map((read) => read(object, now))] };
}

function describeColumn({ name, type, format = "", description, jsonPath, priority = 0 }: PrinterColumn): TableColumn {
  return {
    name,
    type,
    format,
    description: description ?? `Custom resource definition column (in JSONPath format): ${jsonPath}`,
    priority,
  };
}

function cellReader(column: PrinterColumn, origin: ServedResource["origin"]): (object: unknown, now: number) => unknown {
  let path: ColumnPath;
  try {
    path = compileColumnPath(column.jsonPath);
  } catch {
    // An invalid path in an accepted CRD results in an empty column.
    return () => null;
  }
  return (object, now) => {
    const [value] = path(object);
    if (value === undefined) return null;
    // Kinds without their own columns show the creation time, others the age.
    if (origin === "builtin" && column.type === "date") return value;
    return cell(column.type, value, now);
  };
}

function cell(type: PrinterColumn["type"], value: unknown, now: number): unknown {
  switch (type) {
    case "string":
      return printResult(value);
    case "integer":
      return Number.isInteger(value) ? value : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "boolean":
      return typeof value === "boolean" ? value : null;
    case "date":
      return typeof value === "string" ? age(value, now) : null;
    default:
      return null;
  }
}

function rowObject(object: DeepReadonly<KubernetesObject>, includeObject: IncludeObject): unknown {
  switch (includeObject) {
    case "None":
      return null;
    case "Object":
      return object;
    default:
      return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata };
  }
}
