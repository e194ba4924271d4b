import { jsonEquals, setOwn } from "../objects/json.ts";
import { statusError, type StatusError } from "../protocol/status.ts";

type Container = unknown[] | Record<string, unknown>;

/** The maximum growth by copies, as in kube-apiserver. Otherwise a short patch could double an object 10,000 times. */
const maxCopyBytes = 3 * 1024 * 1024;
/** The maximum number of copied values. No object that is stored has more, and small values take longer than their text suggests. */
const maxCopyValues = 80_000;

/** Maximum number of names in a path: no document nests deeper. */
const maxPathNames = 512;

/* Units of work, of about 20 ns. */
const workOfOperation = 20;
const workOfName = 2;
const workOfCopy = 10;
const charactersOfWork = 4;
/** Items of a list that move in one unit. */
const itemsOfWork = 16;

/** An operation that cannot be applied. */
export function refusal(detail: string): StatusError {
  return statusError("Invalid", `the server rejected our request due to an error in our request: ${detail}`);
}

/** Splits a JSON pointer (RFC 6901). As in kube-apiserver, what precedes the first slash does not count. */
function parsePointer(pointer: string, name: string): string[] {
  const [, ...tokens] = pointer.split("/", maxPathNames + 2);
  if (tokens.length > maxPathNames) throw refusal(`${name} has more than ${maxPathNames} names`);
  if (pointer !== "" && tokens.length === 0) throw refusal(`${name} ${JSON.stringify(pointer)} is not a JSON pointer`);
  return tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** A document that the operations of a JSON Patch change. Containers that this class created are changed in place; others are copied first. */
export class PatchedDocument {
  value: unknown;
  /** Work since this was reset: the names of paths, the values copied and compared, and a share of the items of lists that move. */
  work = 0;
  readonly #own = new WeakSet<object>();
  #copiedBytes = 0;
  #copiedValues = 0;

  constructor(value: unknown) {
    this.value = value;
  }

  apply(operation: Record<string, unknown>): void {
    this.work += workOfOperation;
    const kind = Object.hasOwn(operation, "op") ? operation.op : undefined;
    const path = this.#pointerOf(operation, "path");
    switch (kind) {
      case "add":
        this.#add(path, valueOf(operation), "add");
        return;
      case "remove":
        this.#remove(path, "remove");
        return;
      case "replace":
        this.#replace(path, valueOf(operation));
        return;
      case "move": {
        const from = this.#pointerOf(operation, "from");
        if (path.length > from.length && from.every((token, index) => token === path[index])) {
          throw refusal(`move operation does not apply: ${pointer(from)} cannot be moved into itself`);
        }
        const value = this.#get(from, "move");
        this.#remove(from, "move");
        this.#add(path, value, "move");
        return;
      }
      case "copy":
        this.#add(path, this.#copyOf(this.#read(this.#pointerOf(operation, "from"), "copy")), "copy");
        return;
      case "test": {
        const found = path.length === 0 ? this.value : this.#read(path, "test");
        this.work += countValues(valueOf(operation), maxCopyValues);
        if (!jsonEquals(found, valueOf(operation))) throw refusal(`testing value ${pointer(path)} failed: test failed`);
        return;
      }
      default:
        throw refusal(`Unexpected kind: ${typeof kind === "string" ? kind : JSON.stringify(kind ?? null)}`);
    }
  }

  #pointerOf(operation: Record<string, unknown>, name: "path" | "from"): string[] {
    const value = Object.hasOwn(operation, name) ? operation[name] : undefined;
    if (typeof value !== "string") throw refusal(`operation missing ${name} field`);
    const path = parsePointer(value, name);
    this.work += workOfName * path.length;
    return path;
  }

  #find(path: readonly string[]): unknown {
    let value = this.value;
    for (const token of path) {
      if (typeof value !== "object" || value === null) return undefined;
      if (Array.isArray(value)) {
        const index = indexOf(token, value.length);
        value = index === undefined ? undefined : (value as unknown[])[index];
      } else value = Object.hasOwn(value, token) ? (value as Record<string, unknown>)[token] : undefined;
    }
    return value;
  }

  /** The value at `path`: null for a missing key of an object, whose container must exist. */
  #read(path: readonly string[], kind: string): unknown {
    const container = path.length === 0 ? undefined : this.#find(path.slice(0, -1));
    if (typeof container !== "object" || container === null) throw missing(kind, path);
    const value = this.#find(path);
    if (value === undefined && Array.isArray(container)) throw badIndex(kind, path);
    return value ?? null;
  }

  #get(path: readonly string[], kind: string): unknown {
    const value = this.#find(path);
    if (value === undefined) throw missing(kind, path);
    return value;
  }

  /** Returns the container that `path` points into, ready to be changed in place. */
  #container(path: readonly string[], kind: string): Container {
    let value = this.value;
    let place = (replacement: Container): void => {
      this.value = replacement;
    };
    for (let depth = 0; ; depth++) {
      if (typeof value !== "object" || value === null) {
        throw refusal(`${kind} operation does not apply: doc is missing path: ${JSON.stringify(pointer(path))}: missing value`);
      }
      const container = this.#owned(value as Container);
      if (container !== value) place(container);
      const token = path[depth];
      if (token === undefined || depth === path.length - 1) return container;
      if (Array.isArray(container)) {
        const index = indexOf(token, container.length);
        value = index === undefined ? undefined : container[index];
        place = (replacement) => {
          if (index !== undefined) container[index] = replacement;
        };
      } else {
        value = Object.hasOwn(container, token) ? container[token] : undefined;
        place = (replacement) => setOwn(container, token, replacement);
      }
    }
  }

  #owned(container: Container): Container {
    if (this.#own.has(container)) return container;
    const copy: Container = Array.isArray(container) ? container.slice() : { ...container };
    this.#own.add(copy);
    this.work += Array.isArray(copy) ? copy.length : Object.keys(copy).length;
    return copy;
  }

  #add(path: readonly string[], value: unknown, kind: string): void {
    const last = path.at(-1);
    if (last === undefined) throw missing(kind, path);
    const container = this.#container(path, kind);
    if (!Array.isArray(container)) {
      setOwn(container, last, value);
      return;
    }
    const index = last === "-" ? container.length : indexOf(last, container.length + 1);
    if (index === undefined) throw badIndex(kind, path);
    this.work += (container.length - index) / itemsOfWork;
    container.splice(index, 0, value);
  }

  #remove(path: readonly string[], kind: string): void {
    const last = path.at(-1);
    if (last === undefined) throw refusal(`${kind} operation does not apply: the whole document cannot be removed`);
    const container = this.#container(path, kind);
    if (Array.isArray(container)) {
      const index = indexOf(last, container.length);
      if (index === undefined) throw badIndex(kind, path);
      this.work += (container.length - index) / itemsOfWork;
      container.splice(index, 1);
    } else {
      if (!Object.hasOwn(container, last)) throw missing(kind, path);
      delete container[last];
    }
  }

  #replace(path: readonly string[], value: unknown): void {
    const last = path.at(-1);
    if (last === undefined) {
      // The result would not be a document.
      if (typeof value === "object" && value !== null) this.value = value;
      return;
    }
    const container = this.#container(path, "replace");
    if (Array.isArray(container)) {
      const index = indexOf(last, container.length);
      if (index === undefined) throw badIndex("replace", path);
      container[index] = value;
    } else setOwn(container, last, value);
  }

  /** Copies deeply, so that a later change in place affects one location only. */
  #copyOf(value: unknown): unknown {
    const values = countValues(value, maxCopyValues - this.#copiedValues);
    this.#copiedValues += values;
    this.work += workOfCopy * values;
    if (this.#copiedValues > maxCopyValues) {
      throw statusError("RequestEntityTooLarge", `Unable to copy, the copies have more than ${maxCopyValues} values`);
    }
    const text = JSON.stringify(value);
    this.work += text.length / charactersOfWork;
    this.#copiedBytes += Buffer.byteLength(text);
    if (this.#copiedBytes > maxCopyBytes) {
      const message = `Unable to copy, the accumulated size increase of copy is ${this.#copiedBytes}, exceeding the limit ${maxCopyBytes}`;
      throw statusError("RequestEntityTooLarge", message);
    }
    return JSON.parse(text);
  }
}

/** The value of an operation; null if missing, as in Go. */
function valueOf(operation: Record<string, unknown>): unknown {
  return Object.hasOwn(operation, "value") ? (operation.value ?? null) : null;
}

function indexOf(token: string, length: number): number | undefined {
  if (!/^[-+]?\d{1,9}$/.test(token)) return undefined;
  const index = Number(token) < 0 ? Number(token) + length : Number(token);
  return index >= 0 && index < length ? index : undefined;
}

function pointer(path: readonly string[]): string {
  return path.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function missing(kind: string, path: readonly string[]): StatusError {
  return refusal(`${kind} operation does not apply: doc is missing key: ${pointer(path)}: missing value`);
}

function badIndex(kind: string, path: readonly string[]): StatusError {
  return refusal(`${kind} operation does not apply: Unable to access invalid index: ${path.at(-1)}: invalid index referenced`);
}

/** The number of values in a JSON value, counted up to one more than `max`. */
function countValues(value: unknown, max: number): number {
  let count = 1;
  if (typeof value !== "object" || value === null) return count;
  for (const child of Object.values(value)) {
    if (count > max) break;
    count += countValues(child, max - count);
  }
  return count;
}
