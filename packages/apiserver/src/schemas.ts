/* Schemas of the built-in kinds, for programs that check manifests without an API server. Loads nothing else of the server. */
export { builtinKindSchema } from "./registry/builtin/builtin-schemas.ts";
