import { type StatusError, statusError } from "@keelson/api-machinery";

/** The form of a response. */
export interface Representation {
  readonly format: "json" | "yaml" | "protobuf";
  /** A kind of the group `meta.k8s.io` instead of the resource's own. */
  readonly as: "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList" | undefined;
  /** Version of that group: `v1` or `v1beta1`. */
  readonly version: "v1" | "v1beta1";
  /** From the media type's parameter. The query parameter is handled elsewhere. */
  readonly pretty: boolean;
}

const plainJson: Representation = { format: "json", as: undefined, version: "v1", pretty: false };
const justJson: readonly Representation[] = [plainJson];

/** The media type of protobuf. */
export const protobufType = "application/vnd.kubernetes.protobuf";

/** The supported representations that an Accept header accepts, preferred first. Unknown media types are skipped. */
export function acceptedRepresentations(accept: string | undefined): readonly Representation[] {
  if (accept === undefined || accept === "" || accept === "application/json" || accept === "*/*") return justJson;
  return parseAccept(accept);
}

/** Media types of built-in kinds, preferred first. */
const objectTypes = ["application/json", "application/yaml", protobufType] as const;
const watchTypes = ["application/json;stream=watch", `${protobufType};stream=watch`] as const;

/**
 * Whether a route accepts the Accept header of a request. As in kube-apiserver, its routes for built-in kinds match media types exactly
 * and before anything else looks at them, so that `application/*` counts for custom resources only.
 */
export function isRouted(accept: string | undefined, types: readonly string[] = objectTypes): boolean {
  if (accept === undefined || accept === "") return true;
  return accept.split(",").some((clause) => {
    const type = clause.split(";", 1)[0]?.trim() ?? "";
    return type === "*/*" || types.includes(type);
  });
}

/** A route does not accept the Accept header. Routes of collections also have the types of watches. */
export function notRouted(types: readonly string[] = objectTypes, isCollection = false): StatusError {
  const available = isCollection ? [...types, ...watchTypes] : types;
  return statusError("NotAcceptable", `406: Not Acceptable\n\nAvailable representations: ${available.join(", ")}`, {});
}

/**
 * The format of a discovery or OpenAPI document. The index of paths and OpenAPI are always JSON, the version is nothing else. Others are in the
 * first accepted format; protobuf only counts with `hasMessage`, and forms such as Table never do.
 *
 * **Errors**: `NotAcceptable`.
 */
export function documentFormat(
  path: string,
  accept: string | undefined,
  accepted: readonly Representation[],
  hasMessage: boolean,
): Representation["format"] {
  if (path === "/openapi/v2" && !isRouted(accept, ["application/json", "application/*"])) throw notAcceptable();
  if (path === "/" || path.startsWith("/openapi/")) return "json";
  const types = path.startsWith("/version") ? ["application/json"] : objectTypes;
  const isGroup = /^\/apis(?:\/[^/]*)?\/?$/.test(path);
  if (!isGroup && !isRouted(accept, types)) throw notRouted(types);
  // Aggregated discovery falls back to JSON.
  const isRoot = /^\/apis?\/?$/.test(path);
  const chosen = accepted.find(({ as, format }) => as === undefined && (format !== "protobuf" || hasMessage));
  if (chosen !== undefined) return chosen.format;
  if (isRoot && isRouted(accept)) return "json";
  throw notAcceptable();
}

/** The format of a failure: the one that the client prefers. Failures are never Tables and never 406. */
export function failureFormat(accepted: readonly Representation[]): Representation["format"] {
  return accepted[0]?.format ?? "json";
}

/** None of the accepted media types is supported. */
export function notAcceptable(message?: string): StatusError {
  return statusError(
    "NotAcceptable",
    message ?? `only the following media types are accepted: application/json, application/yaml, ${protobufType}`,
  );
}

function parseAccept(accept: string): Representation[] {
  return accept
    .split(",")
    .flatMap((clause, order) => {
      const [range = "", ...parameters] = clause.split(";").map((part) => part.trim());
      const format = range === "application/*" ? "json" : formatOf(range);
      if (format === undefined) return [];
      const values = new Map(
        parameters.map((parameter) => {
          const equals = parameter.indexOf("=");
          const name = equals < 0 ? parameter : parameter.slice(0, equals);
          return [name.trim().toLowerCase(), equals < 0 ? "" : unquote(parameter.slice(equals + 1).trim())] as const;
        }),
      );
      const quality = values.has("q") ? Number(values.get("q")) : 1;
      const representation = withTransform(format, values);
      // As in kube-apiserver, a quality of 0 is the lowest one and not an exclusion.
      return representation === undefined ? [] : [{ representation, quality: Number.isNaN(quality) ? 1 : quality, order }];
    })
    .sort((a, b) => b.quality - a.quality || a.order - b.order)
    .map(({ representation }) => representation);
}

function formatOf(range: string): Representation["format"] | undefined {
  if (range === "application/json" || range === "*/*") return "json";
  if (range === protobufType) return "protobuf";
  return range === "application/yaml" ? "yaml" : undefined;
}

function withTransform(format: Representation["format"], values: ReadonlyMap<string, string>): Representation | undefined {
  const pretty = values.get("pretty") === "1" || values.get("pretty") === "true";
  const as = values.get("as");
  if (as === undefined) return { ...plainJson, format, pretty };
  const version = values.get("v");
  if (values.get("g") !== "meta.k8s.io" || (version !== "v1" && version !== "v1beta1")) return undefined;
  if (as !== "Table" && as !== "PartialObjectMetadata" && as !== "PartialObjectMetadataList") return undefined;
  // A Table has no message.
  if (as === "Table" && format === "protobuf") return undefined;
  return { format, as, version, pretty };
}

function unquote(value: string): string {
  return value.length >= 2 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
}
