import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import { countBy, epochSeconds, maxBy, type OperatorMonitoring } from "@keelson/operator/monitoring";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";

/** Tests of both kinds. */
function testsOf(cache: Cache): readonly DeepReadonly<IntegrationTest | LoadTest>[] {
  return [...cache.list(IntegrationTest), ...cache.list(LoadTest)];
}

/** Metrics, panels and alert rules of the testplane family. */
export const testplaneMonitoring: OperatorMonitoring = {
  metrics: {
    keelson_testplane_tests: {
      help: "Tests by kind and phase",
      read: (cache) =>
        countBy(testsOf(cache), ({ kind, metadata: { namespace }, status }) => ({
          ...{ namespace, kind, phase: status?.phase ?? "Pending" },
        })),
    },
    keelson_testplane_verdicts: {
      help: "Finished tests by kind and verdict",
      read: (cache) =>
        countBy(
          testsOf(cache).filter(({ status }) => status?.verdict !== undefined),
          ({ kind, metadata: { namespace }, status }) => ({ namespace, kind, verdict: status?.verdict ?? "" }),
        ),
    },
    keelson_testplane_last_verdict_timestamp_seconds: {
      help: "Time of the last verdict of an existing test",
      read: (cache) =>
        maxBy(
          testsOf(cache).filter(({ status }) => status?.verdict !== undefined),
          ({ kind, metadata: { namespace }, status }) => ({ namespace, kind, verdict: status?.verdict ?? "" }),
          ({ status }) => epochSeconds(status?.completionTime),
        ),
    },
  },
  panels: [
    { title: "Tests", queries: [{ expr: "sum by (kind, phase) (keelson_testplane_tests)", legend: "{{kind}} {{phase}}" }] },
    {
      title: "Verdicts",
      queries: [{ expr: "sum by (kind, verdict) (keelson_testplane_verdicts)", legend: "{{kind}} {{verdict}}" }],
    },
    {
      title: "Time since the last verdict",
      unit: "s",
      queries: [
        {
          expr: "time() - keelson_testplane_last_verdict_timestamp_seconds",
          legend: "{{namespace}} {{kind}} {{verdict}}",
        },
      ],
    },
  ],
  alerts: [
    {
      alert: "TestsFailed",
      expr: 'time() - max by (namespace, kind) (keelson_testplane_last_verdict_timestamp_seconds{verdict=~"Failed|Error|Timeout"}) < 900',
      severity: "warning",
      summary: "A {{ $labels.kind }} in {{ $labels.namespace }} failed",
      description: "See keelson test list -n {{ $labels.namespace }}, then keelson test report NAME",
    },
    {
      alert: "TestsFlaky",
      expr: 'time() - keelson_testplane_last_verdict_timestamp_seconds{verdict="Flaky"} < 3600',
      severity: "warning",
      summary: "A {{ $labels.kind }} in {{ $labels.namespace }} passed in some rounds only",
    },
  ],
};
