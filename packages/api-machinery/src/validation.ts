/* Kubernetes' rules for names, and the causes and errors that report an invalid field. */
export * from "./protocol/field-causes.ts";
export { quoteText, shorten } from "./protocol/quote-text.ts";
export { type StatusCause, unclassifiedError } from "./protocol/status.ts";
export * from "./values/names.ts";
