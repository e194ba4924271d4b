/**
 * Scenarios that fail, by `category/name`, with the reason. A scenario that is not listed must pass, and a listed one must fail: remove
 * the line with the fix.
 */
export const expectedFailures: ReadonlyMap<string, string> = new Map([
  [
    "crud/pod-update-rules",
    "Kubernetes 1.35 differs: a write through the object that changes nothing but its status changes nothing, managedFields included " +
      "(1.20 took the ownership of the ignored status down, which made a new resourceVersion)",
  ],
]);
