import { describe, expect, it, onTestFinished } from "vitest";
import { sendRequest } from "../endpoints/testing/send-request.ts";
import { startTestEnvironment } from "../testing/test-environment.ts";
import { unenforced } from "./unenforced.ts";

describe("what is stored but not enforced", () => {
  it("names served resources and fields of their schema", async () => {
    const environment = await startTestEnvironment();
    onTestFinished(() => environment.stop());
    const served = new Map(
      environment.resources
        .list()
        // The preferred version comes first, and the last entry of a map wins.
        .toReversed()
        .map((resource) => [`${resource.plural}${resource.group === "" ? "" : `.${resource.group}`}`, resource]),
    );
    for (const { resource, field } of unenforced) {
      expect([...served.keys()]).toContain(resource);
      if (field === "" || field.includes("*")) continue;
      let schema = served.get(resource)?.schema;
      for (const name of field.split(".")) {
        const next = schema?.properties?.[name.replace("[]", "")];
        schema = name.endsWith("[]") ? next?.items : next;
      }
      expect(schema, `${resource} ${field}`).toBeDefined();
    }
  });

  it("warns the sender of a NetworkPolicy", async () => {
    const environment = await startTestEnvironment();
    onTestFinished(() => environment.stop());
    const { code, warnings } = await sendRequest(
      environment,
      "POST",
      "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
      {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "deny-all" },
        spec: { podSelector: {} },
      },
    );
    expect([code, warnings]).toEqual([
      201,
      ["networkpolicies.networking.k8s.io are enforced with `--pod-network namespaces` only, otherwise stored without effect"],
    ]);
  });
});
