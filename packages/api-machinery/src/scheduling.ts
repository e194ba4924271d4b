/*
 * What Pods request and where they may run, for schedulers and for controllers that plan ahead of one.
 */
export { exclusionOf, isSelected, isTolerated, type Taint, tolerationOf } from "./scheduling/node-exclusion.ts";
export { addAmounts, type Amounts, amountsOf, podRequests } from "./scheduling/pod-requests.ts";
