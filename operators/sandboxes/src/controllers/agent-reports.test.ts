import type { OperatorServices } from "@keelson/operator";
import { expect, it } from "vitest";
import type { Sandbox } from "../api/sandbox.ts";
import type { AgentPhase } from "../protocol/protocol.ts";
import { agentReports } from "./agent-reports.ts";

/** The sandboxes that are reconciled after a report with these phases. */
function reconciledAfter(reported: Readonly<Record<string, AgentPhase>>, sandboxes: readonly Sandbox[]): readonly string[] {
  let report: (pool: { readonly namespace: string; readonly name: string }) => void = () => {};
  const runtime = {
    agentStatus: () => ({ sandboxStatuses: Object.entries(reported).map(([sandboxId, phase]) => ({ sandboxId, phase })) }),
    onLoadChange: (listener: typeof report) => {
      report = listener;
      return () => {};
    },
  };
  const found: string[] = [];
  const context = { cache: { list: () => sandboxes }, enqueue: ({ name }: { readonly name: string }) => found.push(name) };
  agentReports({ get: () => runtime } as unknown as OperatorServices).start(context as never);
  report({ namespace: "default", name: "pool" });
  return found;
}

const sandbox = (name: string, phase: NonNullable<Sandbox["status"]>["phase"], isDeleting = false): Sandbox => ({
  apiVersion: "sandbox.fast.io/v1alpha1",
  kind: "Sandbox",
  metadata: { namespace: "default", name, ...(isDeleting && { deletionTimestamp: "2026-01-01T00:00:00Z" }) },
  spec: { poolRef: "pool", image: "host" },
  status: { ...(phase && { phase }), assignedPod: "agent", sandboxID: name },
});

it("reconciles sandboxes that wait for the report, but none that runs or that its agent is still stopping", () => {
  const sandboxes = [
    sandbox("starting", "Creating"),
    sandbox("running", "Running"),
    sandbox("stopping", "Terminating", true),
    sandbox("gone", "Terminating", true),
    sandbox("asked", "Terminating", true),
  ];
  const reported = { starting: "running", running: "running", stopping: "terminating", asked: "running" } as const;
  expect(reconciledAfter(reported, sandboxes)).toEqual(["starting", "gone", "asked"]);
});
