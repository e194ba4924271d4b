import { type StatusError, statusError } from "@keelson/api-machinery";

/** The form of a response. */
export interface Representation {
  readonly format: "json" | "yaml";
  /** A kind of the group `meta.k8s.io` instead of the resource's own. */
  readonly as: "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList" | undefined;
  /** Version of that group: `v1` or `v1beta1`. */
  readonly version: "v1" | "v1beta1";
  /** From the media type's parameter. The query parameter is handled elsewhere. */
  readonly pretty: boolean;
}

const plainJson: Representation = { format: "json", as: undefined, version: "v1", pretty: false };
const justJson: readonly Representation[] = [plainJson];

/**
 * The supported representations that an Accept header accepts, preferred first. Protobuf and unknown media types are skipped, so
 * `application/vnd.kubernetes.protobuf, application/json` results in JSON.
 */
export function acceptedRepresentations(accept: string | undefined): readonly Representation[] {
  if (accept === undefined || accept === "" || accept === "application/json" || accept === "*/*") return justJson;
  return parseAccept(accept);
}

/**
 * Whether an Accept header accepts JSON or YAML, the formats of built-in kinds, discovery and OpenAPI documents. As in kube-apiserver,
 * `application/*` counts for custom resources only.
 */
export function acceptsDocument(accept: string | undefined): boolean {
  return (
    accept === undefined ||
    accept === "" ||
    accept.split(",").some((clause) => formatOf(clause.split(";", 1)[0]?.trim().toLowerCase() ?? ""))
  );
}

/** The format of a failure: JSON unless the client prefers YAML. Failures are never Tables and never 406. */
export function failureFormat(accepted: readonly Representation[]): "json" | "yaml" {
  return accepted[0]?.format ?? "json";
}

/** None of the accepted media types is supported. */
export function notAcceptable(message?: string): StatusError {
  return statusError(
    "NotAcceptable",
    message ?? "only the following media types are accepted: application/json, application/yaml",
  );
}

function parseAccept(accept: string): Representation[] {
  return accept
    .split(",")
    .flatMap((clause, order) => {
      const [range = "", ...parameters] = clause.split(";").map((part) => part.trim());
      const format = range === "application/*" ? "json" : formatOf(range.toLowerCase());
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

function formatOf(range: string): "json" | "yaml" | undefined {
  if (range === "application/json" || range === "*/*") return "json";
  return range === "application/yaml" ? "yaml" : undefined;
}

function withTransform(format: "json" | "yaml", values: ReadonlyMap<string, string>): Representation | undefined {
  const pretty = values.get("pretty") === "1" || values.get("pretty") === "true";
  const as = values.get("as");
  if (as === undefined) return { ...plainJson, format, pretty };
  const version = values.get("v");
  if (values.get("g") !== "meta.k8s.io" || (version !== "v1" && version !== "v1beta1")) return undefined;
  if (as !== "Table" && as !== "PartialObjectMetadata" && as !== "PartialObjectMetadataList") return undefined;
  return { format, as, version, pretty };
}

function unquote(value: string): string {
  return value.length >= 2 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
}
