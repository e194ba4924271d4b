/* Loads the TLS modules of Node.js before any test: loaded lazily in a worker that test files share, they can stay incomplete. */
import "node:https";
import "node:tls";
import { expect } from "vitest";

// Without this, `toMatchObject({ message: /x/ })` accepts every message: a regular expression has no properties of its own.
expect.addEqualityTesters([
  (received, expected) => {
    if (!(expected instanceof RegExp) || received instanceof RegExp) return undefined;
    return typeof received === "string" && expected.test(received);
  },
]);
