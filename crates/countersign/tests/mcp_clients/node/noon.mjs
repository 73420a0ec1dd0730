// Loaded before a server whose answers say what time it is, so that two servers answer alike.

Date.prototype.toLocaleTimeString = () => "noon";
Date.prototype.toISOString = () => "2026-07-28T12:00:00.000Z";
