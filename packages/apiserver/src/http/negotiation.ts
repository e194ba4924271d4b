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

/** Whether an Accept header accepts a format of built-in kinds. As in kube-apiserver, `application/*` counts for custom resources only. */
export function acceptsBuiltIn(accept: string | undefined): boolean {
  return accept === undefined || accept === "" || formatsOf(accept).length > 0;
}

/**
 * The format of a discovery or OpenAPI document: the first accepted one. JSON if only forms of its own are accepted, such as
 * `application/json;as=APIGroupDiscoveryList`. Undefined if none is accepted; protobuf only counts with `hasMessage`.
 */
export function documentFormat(
  accept: string | undefined,
  accepted: readonly Representation[],
  hasMessage: boolean,
): Representation["format"] | undefined {
  if (accept === undefined || accept === "") return "json";
  const formats = formatsOf(accept).filter((format) => format !== "protobuf" || hasMessage);
  if (formats.length === 0) return undefined;
  return accepted.find(({ format }) => formats.includes(format))?.format ?? "json";
}

function formatsOf(accept: string): readonly Representation["format"][] {
  return accept.split(",").flatMap((clause) => formatOf(clause.split(";", 1)[0]?.trim().toLowerCase() ?? "") ?? []);
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
