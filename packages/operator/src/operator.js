export {};
//# sourceMappingURL=operator.js.map
