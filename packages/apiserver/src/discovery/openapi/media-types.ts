import type { OpenApiVersion } from "./openapi-types.ts";

/** The media type of an OpenAPI document in protobuf in responses. Same as kube-apiserver. */
export function openApiProtobufType(version: OpenApiVersion): string {
  return `application/com.github.proto-openapi.spec.${version}.v1.0+protobuf`;
}

/**
 * Whether the Accept header prefers protobuf for an OpenAPI document to JSON and YAML. Clients also request the media type with `@`, which
 * is not legal there, so that responses do not use it.
 */
export function prefersOpenApiProtobuf(accept: string | undefined, version: OpenApiVersion): boolean {
  const type = openApiProtobufType(version);
  const protobufTypes: readonly string[] = [type, type.replace(".v1.0", "@v1.0")];
  const [preferred] = (accept ?? "")
    .split(",")
    .map((clause) => clauseOf(clause))
    .filter(({ name, quality }) => quality > 0 && (protobufTypes.includes(name) || otherTypes.has(name)))
    .sort((a, b) => b.quality - a.quality);
  return preferred !== undefined && protobufTypes.includes(preferred.name);
}

const otherTypes: ReadonlySet<string> = new Set(["*/*", "application/*", "application/json", "application/yaml"]);

function clauseOf(clause: string): { readonly name: string; readonly quality: number } {
  const [name = "", ...parameters] = clause.split(";").map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith("q="));
  return { name, quality: quality === undefined ? 1 : Number(quality.slice(2)) };
}
