/** A version of OpenAPI. They differ in references and a few types. */
export type OpenApiVersion = "v2" | "v3";

/** A JSON object of an OpenAPI document. */
export type Json = Record<string, unknown>;
