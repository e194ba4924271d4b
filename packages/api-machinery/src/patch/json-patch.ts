import { statusError, type StatusError } from "../protocol/status.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { PatchedDocument, refusal } from "./patched-document.ts";

const maxOperations = 10_000;

/**
 * Applies a JSON Patch (RFC 6902) and returns the new value. The arguments are not changed; unchanged parts are shared with
 * `target`.
 *
 * As in kube-apiserver, a missing key of an object reads as null, so that it can be replaced, copied and tested for null, and a missing
 * `value` is null. A negative index counts from the end of a list. The whole document can be replaced, not added or removed.
 *
 * **Errors**: a `StatusError`: BadRequest if `operations` is not a list of objects, RequestEntityTooLarge above 10,000
 * operations or 3 MiB or 80,000 values of copies, Invalid (422) if an operation cannot be applied.
 */
export function jsonPatch(target: unknown, operations: unknown): unknown {
  return runSteps(jsonPatchInSteps(target, operations));
}

/** Work of a step, in {@link PatchedDocument.work}: a few milliseconds. */
const maxStepWork = 200_000;

/** {@link jsonPatch} in steps: an operation on a long list or a deep path takes much longer than its text. */
export function* jsonPatchInSteps(target: unknown, operations: unknown): Steps<unknown> {
  // Go decodes null as an empty patch.
  if (operations === null) return target;
  if (!Array.isArray(operations)) throw undecodable(`json: cannot unmarshal ${goKind(operations)} into Go value of type []`);
  if (operations.length > maxOperations) {
    const message = `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`;
    throw statusError("RequestEntityTooLarge", message);
  }
  const document = new PatchedDocument(target);
  for (const operation of operations as unknown[]) {
    if (operation === null) throw refusal("Unexpected kind: unknown");
    if (typeof operation !== "object" || Array.isArray(operation)) {
      throw undecodable(`json: cannot unmarshal ${goKind(operation)} into Go value of type `);
    }
    requireTexts(operation as Record<string, unknown>);
    document.apply(operation as Record<string, unknown>);
    if (document.work < maxStepWork) continue;
    document.work = 0;
    yield;
  }
  yield* requireDepth(document.value);
  return document.value;
}

/** Maximum depth of a patched object: that of a request body, so that it can be read and sent back. */
const maxDepth = 256;
/** Values visited in a step. */
const valuesOfStep = 20_000;

/** A move can put values that are nested deeply into others that are, repeatedly. */
function* requireDepth(root: unknown): Steps<void> {
  let level: readonly unknown[] = [root];
  let visited = 0;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) throw refusal(`the object would be nested more than ${maxDepth} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value !== "object" || value === null) continue;
      for (const each of Object.values(value)) if (typeof each === "object" && each !== null) next.push(each);
      if (++visited % valuesOfStep === 0) yield;
    }
    level = next;
  }
}

function goKind(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "boolean") return "bool";
  return value === null || value === undefined ? "null" : typeof value;
}

function undecodable(why: string): StatusError {
  return statusError("BadRequest", `error decoding patch: ${why}handlers.jsonPatchOp`);
}

function requireTexts(operation: Record<string, unknown>): void {
  for (const name of ["op", "path", "from"]) {
    const value = Object.hasOwn(operation, name) ? operation[name] : undefined;
    if (value === undefined || value === null || typeof value === "string") continue;
    const why = `json: cannot unmarshal ${goKind(value)} into Go struct field jsonPatchOp.${name} of type string`;
    throw statusError("BadRequest", `error decoding patch: ${why}`);
  }
}
