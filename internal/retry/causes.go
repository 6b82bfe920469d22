package retry

// This file is the knowledge of how programs fail, as data. Each row names a type and how it is told. Judge says in
// which order they count.

// exit says what the exit codes of some programs mean. Both stand between blanks; without codes, any counts.
type exit struct {
	programs, codes string

	is Type

	// soft reports whether what the program has printed counts more, since the code has several causes.
	soft bool
}

const soft, firm = true, false

// exits are the documented exit codes: of curl, wget, rsync, sqlite3, psql, aria2c and httpie in their manuals under
// EXIT CODES, of ssh in ssh(1), of timeout in timeout(1).
var exits = []exit{
	// No name, no connection, or one that broke: in HTTP/2, HTTP/3 and QUIC, too.
	{"curl", "5 6 7 18 52 55 92 95 96", TypeNetwork, firm},
	// Framing, a TLS handshake, receiving, a proxy: the connection, or what one side thinks of the other.
	{"curl", "16 35 56 97", TypeNetwork, soft},
	{"curl", "28", TypeTimeout, firm},
	// --fail, for any status of 400 or more. The message has the number.
	{"curl", "22", TypeClientError, soft},
	// Too many redirects (47); TLS: engines, ciphers, certificates of either side, pinned keys.
	{"curl", "47 51 53 54 58 59 60 64 66", TypeClientError, firm},
	{"curl", "77 78 80 82 83 90 91", TypeClientError, firm},
	{"curl", "9 67 94", TypeAuth, firm},
	// The output cannot be written, no memory, no space on the server.
	{"curl", "23 27 70", TypeResource, firm},
	// A wrong URL, option or local file.
	{"curl", "1 2 3 4 26 37 39 43 48", TypeCommandFailed, firm},
	{"wget", "4", TypeNetwork, firm},
	{"wget", "7", TypeNetwork, soft},
	{"wget", "5", TypeClientError, firm},
	{"wget", "6", TypeAuth, firm},
	{"wget", "8", TypeClientError, soft},
	{"ssh scp sftp", "255", TypeNetwork, soft},
	{"scp sftp", "1", TypeCommandFailed, soft},
	{"rsync", "10 12", TypeNetwork, soft},
	{"rsync", "30 35", TypeTimeout, firm},
	{"rsync", "11 22", TypeResource, soft},
	{"aria2c", "2", TypeTimeout, firm},
	{"aria2c", "5 6 19", TypeNetwork, firm},
	{"aria2c", "3 4 22 23", TypeClientError, soft},
	{"aria2c", "24", TypeAuth, firm},
	{"aria2c", "29", TypeServerError, firm},
	{"http https xh xhs", "2", TypeTimeout, soft},
	{"http https xh xhs", "4", TypeClientError, soft},
	{"http https xh xhs", "5", TypeServerError, firm},
	// psql: the connection went bad. pg_isready: no response.
	{"psql pg_dump pg_isready createdb", "2", TypeNetwork, soft},
	{"dig", "9", TypeTimeout, firm},
	{"timeout", "124", TypeTimeout, firm},
	// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_FULL.
	{"sqlite3", "5 6 13", TypeResource, firm},
	{"sqlite3", "", TypeCommandFailed, firm},
	{"jq", "1 2 3 4 5", TypeCommandFailed, firm},
	// Programs that read and write files and nothing else: no service is to blame.
	{`
		: [ awk basename black cat chmod clang clang++ cmp cp cut diff echo eslint false file find flake8 g++ gcc
		gofmt grep gunzip gzip head isort javac ld ln ls md5sum mkdir mv mypy patch prettier printf pylint pytest rg
		rm rmdir ruff rustc sed sha256sum shellcheck sort stat tail tar test touch true tsc tsort unxz unzip wc
		xmllint xz yamllint yq zip zstd`, "", TypeCommandFailed, firm},
}

// summaries are lines with which tests, compilers and linters end: * stands for any text, # for a number. What they
// print besides is about the code under test.
var summaries = []string{
	"=* short test summary info =*", "no tests ran in *", "=* no tests ran in *", "=* # failed*", "# failed in *",
	"# failed, # passed*", // pytest
	"*: error: argument *", "*: error: the following arguments are required: *",
	"*: error: unrecognized arguments: *",    // argparse
	"FAILED (failures=*", "FAILED (errors=*", // unittest
	"Tests: * failed*", "Test Suites: * failed*", "Test Files * failed*", "# failing", // jest, vitest, mocha
	"@@ -* @@*", "Received string: *", "--- FAIL: *", "FAIL\t*", "panic: test timed out after *", // go test
	"test result: FAILED*", "error: test failed, to rerun *", // cargo test
	"# example*, # failure*", "# runs, # assertions, #* failure*", "FAILURES!", // rspec, minitest, phpunit
	"*Tests run: #, Failures: *", "There were failing tests*", "> There were failing tests*", // JUnit
	"#% tests passed, # tests failed *", "* tests failed out of *", // ctest
	"not ok # *", "# fail #", "ℹ fail #", "Result: FAIL", "Failed #/# test programs*", // TAP, node:test, prove
	"Failed! *- Failed: *", "# scenarios (* failed*", // dotnet, cucumber
	"*:#:#: error: *", "*:#:#: fatal error: *", "*:#: error: *", "*:#: undefined reference to *",
	"collect2: error: *",                                                     // gcc, clang, javac
	"error[E#]: *", "error: could not compile *", "error: aborting due to *", // rustc
	"*: error TS#: *", "* # problem* (# error*", "✖ # problem*", "Found # error*",
	"# error generated.", "# errors generated.", "# error", "# errors",
	"*AssertionError*", "*ERR_ASSERTION*", "Assertion failed*", "*: Assertion `* failed.", "*panicked at *assertion *failed*",
	"assertion `* failed*", "CONFLICT (*): *", " ! [rejected] *", "*: conftest.py*", "*Segmentation fault*",
}

// words are names that mean a type wherever a client puts them: classes of errors, whatever their package, and codes.
// Names stand between blanks.
type words struct {
	is    Type
	names string
}

// exceptions are classes of errors, without their packages. The message of one that is not command_failed may say more.
var exceptions = []words{
	{TypeNetwork, `
		APIUserAbortError AutoReconnect BadStatusLine ChunkedEncodingError ClientConnectorDNSError ClientConnectorError
		ClientOSError ClientPayloadError ClosedChannelException CommunicationsException ConnectError ConnectException
		ConnectFailed ConnectionAbortedError ConnectionClosed ConnectionClosedError ConnectionDoesNotExistError
		ConnectionError ConnectionFailed ConnectionNotEstablished ConnectionRefusedError ConnectionResetError
		ConnectionTerminated CouldNotConnect HttpHostConnectException IncompleteRead IncompleteReadError
		MongoNetworkError MongoSocketException MongoSocketOpenException StreamLostError MongoSocketReadException
		NameResolutionError NetworkError NoBrokersAvailable NoHttpResponseException NoRouteToHostException
		NoValidConnectionsError PortUnreachableException PrematureCloseError ProtocolError ProxyError ReadError
		RedisConnectionException RemoteDisconnected RemoteProtocolError RemoteTransportException RequestError
		ResponseNotReady SMTPConnectError SMTPServerDisconnected SSLEOFError SSLZeroReturnError ServerDisconnectedError
		ServiceRequestError ServiceResponseError SocketError SocketException StreamResetException TransportError
		UnknownHostException WriteError gaierror herror UnresolvedAddressException ECONNREFUSED ECONNRESET EHOSTUNREACH
		ENETUNREACH EPIPE ConnectionLoss EOFException`},
	{TypeTimeout, `
		AbortError ConnectTimeout ConnectionTimeout DeadlineExceeded ETIMEDOUT MaxRetryTimeout
		MongoServerSelectionError NetworkTimeout OpenTimeout PoolTimeout QueryCanceled ReadTimeout RequestTimeout
		Timeout TimeoutError TimeoutException TimeoutExpired WriteTimeout LockWaitTimeout`},
	{TypeRateLimit, `
		RateLimitError RateLimitException RateLimitExceededException ResourceExhausted ThrottledException
		ThrottlingException TooManyRequests TooManyRequestsException RateLimitReachedError RateLimitExceeded`},
	{TypeServerError, `
		BusyLoadingError CannotConnectNowError DeadlockDetected DeadlockDetectedError InternalServerError
		OverloadedError SerializationFailure ServiceUnavailable ServiceUnavailableError TooManyConnections
		TooManyConnectionsError BadGateway GatewayTimeout InternalFailure VaultDown`},
	{TypeAuth, `
		AccessDenied AccessDeniedException AuthError AuthenticationError AuthenticationException AuthenticationFailed
		ClientAuthenticationError CredentialRetrievalError DefaultCredentialsError InvalidAuthorizationSpecification
		InvalidPassword InvalidPasswordError NoAuthHandlerFound NoCredentialsError NotAuthenticated
		PartialCredentialsError PermissionDenied PermissionDeniedError ProxyAuthenticationError RefreshError
		SMTPAuthenticationError SSOTokenLoadError TokenRetrievalError Unauthorized UnauthorizedError
		UnauthorizedSSOTokenError`},
	{TypeClientError, `
		BadRequest BadRequestError CertificateError ClientConnectorCertificateError ClientConnectorSSLError
		ConflictError GoneError InvalidArgument InvalidCertificateError NotFound NotFoundError
		ResourceNotFoundException SSLCertVerificationError SSLPeerUnverifiedException TooManyRedirects
		UnprocessableEntityError ResourceNotFoundError ResourceExistsError NotImplementedException
		CertPathValidatorException CertificateException CertificateExpiredException SunCertPathBuilderException
		UnsupportedProtocol`},
	{TypeResource, `
		MemoryError OutOfMemoryError OutOfMemoryException ENOSPC EMFILE ENOMEM NoMemoryError DiskFull OutOfMemory`},
	{TypeCommandFailed, `
		ArgumentError ArgumentException ArgumentNullException ArithmeticException ArrayIndexOutOfBoundsException
		AssertionError AttributeError BadZipFile BadZipfile BadGzipFile ClassCastException ClassNotFoundException
		CSVError DataError DivideByZeroException DivisionByZeroError DuplicateKeyError FileExistsError
		FileNotFoundError FileNotFoundException FormatException EOFError FrozenError IllegalArgumentException
		ImportError IndentationError IndexError IndexOutOfRangeException InputMismatchException
		IntegrityError InvalidCastException InvalidOperationException InvalidSchema InvalidURL InvalidRequirement
		IsADirectoryError JSONDecodeError KeyError KeyNotFoundException LoadError LookupError MalformedURLException
		MissingSchema ModuleNotFoundError NameError NegativeArraySizeException NoClassDefFoundError NoMethodError
		NoSuchElementException NoSuchFileException NotADirectoryError NotImplementedError NullPointerException
		NullReferenceException NumberFormatException OverflowError ParseError ParserError ParsingError PermissionError
		ProgrammingError RangeError RecursionError ReferenceError StackOverflowError StopIteration
		StringIndexOutOfBoundsException SyntaxError TabError TypeError UnboundLocalError UndefinedError
		UnicodeDecodeError UnicodeEncodeError UnicodeError UnidentifiedImageError UnsupportedClassVersionError
		UnsupportedOperation UnsupportedOperationException ValidationError ValueError YAMLException ScannerError
		ZeroDivisionError BindException ZipException TOMLDecodeError XMLSyntaxError ExpatError DecodeError InputError
		UsageError NotADirectoryException`},
}

// codes are the errors that services and clients name by a code: AWS, Azure, Google and gRPC, Kubernetes, Node.js,
// registries and PostgreSQL. A code counts where a client writes one: behind code, status or reason, in brackets, or
// before a colon. Those of five characters are SQLSTATEs (PostgreSQL, Appendix A): 40001 and 40P01 are transactions
// that may be repeated, 53300 too many connections, 55P03 a lock, 57P01 to 57P03 a server that stops or starts, 28P01
// and 28000 a login, 3D000 a database that is not there.
var codes = []words{
	{TypeRateLimit, `
		BandwidthLimitExceeded EC2ThrottledException LimitExceededException ProvisionedThroughputExceededException
		PriorRequestNotComplete RequestLimitExceeded RequestThrottled RequestThrottledException ResourceExhausted
		RESOURCE_EXHAUSTED SlowDown Throttled Throttling ThrottlingException ThrottledException TooManyRequests
		TooManyRequestsException ServerBusy OperationTimedOutThrottled rate_limit_error rate_limit_exceeded
		insufficient_quota toomanyrequests TransactionInProgressException userRateLimitExceeded rateLimitExceeded
		quotaExceeded dailyLimitExceeded 57014_throttled`},
	{TypeTimeout, `
		DEADLINE_EXCEEDED DeadlineExceeded ETIMEDOUT ESOCKETTIMEDOUT RequestTimeout RequestTimeoutException
		UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT ERR_SOCKET_CONNECTION_TIMEOUT
		ERR_TIMED_OUT ConnectionTimeout ServerTimeout FETCH_TIMEOUT ERR_PNPM_FETCH_TIMEOUT`},
	{TypeNetwork, `
		EAI_AGAIN EAI_FAIL EAI_NODATA EAI_NONAME ECONNABORTED ECONNREFUSED ECONNRESET EHOSTDOWN EHOSTUNREACH ENETDOWN
		ENETRESET ENETUNREACH ENOTCONN ENOTFOUND EPIPE ESHUTDOWN UND_ERR_SOCKET ERR_NETWORK ERR_STREAM_PREMATURE_CLOSE
		ERR_HTTP2_STREAM_ERROR ERR_HTTP2_SESSION_ERROR ERR_HTTP2_GOAWAY_SESSION ConnectionRefused ConnectionReset
		ConnectionAborted ConnectionClosed HostUnreachable NetworkUnreachable NotConnected ECONNECTION
		ERR_CONNECTION_REFUSED ERR_CONNECTION_RESET ERR_CONNECTION_CLOSED ERR_NAME_NOT_RESOLVED ERR_EMPTY_RESPONSE
		ERR_INTERNET_DISCONNECTED ERR_ADDRESS_UNREACHABLE ERR_PROXY_CONNECTION_FAILED ERR_TUNNEL_CONNECTION_FAILED
		FailedToOpenSocket ConnectionRefusedError`},
	{TypeServerError, `
		ABORTED BadGateway GatewayTimeout InternalError InternalFailure InternalServerError INTERNAL
		InternalServerErrorException InternalServiceException ServiceException ServiceUnavailable
		ServiceUnavailableException ServiceUnavailableError UNAVAILABLE Unavailable TransientError overloaded_error
		server_error api_error backendError internalError CLUSTERDOWN LOADING TRYAGAIN MASTERDOWN 40001 40P01 53300
		55P03 57P01 57P02 57P03`},
	{TypeAuth, `
		AccessDenied AccessDeniedException AuthFailure AuthenticationFailed AuthorizationFailed
		AuthorizationHeaderMalformed ExpiredToken ExpiredTokenException EAUTH E401 E403 ENEEDAUTH Forbidden
		InvalidAccessKeyId InvalidClientTokenId InvalidToken NOAUTH NOPERM PERMISSION_DENIED PermissionDenied
		SignatureDoesNotMatch UNAUTHENTICATED Unauthenticated Unauthorized UnauthorizedOperation
		UnrecognizedClientException UnrecognizedClient WRONGPASS authentication_error permission_error invalid_api_key
		InvalidSignatureException MissingAuthenticationToken OptInRequired TokenRefreshRequired invalid_grant
		invalid_client unauthorized denied DENIED 28P01 28000`},
	{TypeClientError, `
		AlreadyExists ALREADY_EXISTS BadRequest BucketAlreadyExists BucketNotEmpty CERT_HAS_EXPIRED CERT_NOT_YET_VALID
		Conflict ConditionalCheckFailedException DEPTH_ZERO_SELF_SIGNED_CERT E400 E404 E409 EINTEGRITY ETARGET EPROTO
		ERR_INVALID_URL ERR_TLS_CERT_ALTNAME_INVALID FAILED_PRECONDITION FailedPrecondition HOSTNAME_MISMATCH
		INVALID_ARGUMENT Invalid InvalidArgument InvalidParameterValue InvalidBucketName MethodNotAllowed
		MalformedPolicyDocument NOT_FOUND NoSuchBucket NoSuchEntity NoSuchKey NoSuchUpload NotFound NotFoundException
		OUT_OF_RANGE PreconditionFailed RepositoryNotFoundException ResourceInUseException ResourceNotFound
		ResourceNotFoundException SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT UNABLE_TO_GET_ISSUER_CERT_LOCALLY
		UNABLE_TO_VERIFY_LEAF_SIGNATURE UNIMPLEMENTED Unimplemented ValidationError ValidationException
		invalid_request_error not_found_error MANIFEST_UNKNOWN NAME_UNKNOWN BlobNotFound ContainerNotFound
		EntityAlreadyExists ERR_SSL_WRONG_VERSION_NUMBER ERR_TOO_MANY_REDIRECTS ERR_CERT_AUTHORITY_INVALID
		ERR_FR_TOO_MANY_REDIRECTS 3D000`},
	{TypeResource, `
		EAGAIN EDQUOT EMFILE ENFILE ENOBUFS ENOMEM ENOSPC EBUSY EFBIG ERR_WORKER_OUT_OF_MEMORY OOM SQLITE_BUSY
		SQLITE_FULL SQLITE_LOCKED`},
	{TypePermission, `
		EACCES EPERM EROFS`},
	{TypeCommandFailed, `
		ParseIntError ParseFloatError Utf8Error FromUtf8Error EEXIST EINVAL EISDIR ELIFECYCLE ENAMETOOLONG ENOENT
		ENOTDIR ENOTEMPTY ERESOLVE EUSAGE EJSONPARSE ERR_ASSERTION ERR_INVALID_ARG_TYPE ERR_INVALID_ARG_VALUE
		ERR_MODULE_NOT_FOUND ERR_REQUIRE_ESM ERR_UNKNOWN_FILE_EXTENSION MODULE_NOT_FOUND ERR_PACKAGE_PATH_NOT_EXPORTED
		EADDRINUSE EADDRNOTAVAIL ERR_PARSE_ARGS_UNKNOWN_OPTION ERR_OUT_OF_RANGE`},
}

// A phrase is how programs write a failure: whole clauses in lower case, one a line. * stands for any text, as says
// reads it.
type phrase struct {
	is    Type
	texts func() []string

	// weak reports whether the row only says what came of something that a line before may name.
	weak bool
}

// phrases are asked in order: what a certificate, a limit or a login says comes before the words about the connection
// around it. judgeLine asks the first row before any code, and the second before any status.
var phrases = []phrase{
	// One side refuses the certificate, the TLS or the key of the other, or redirects lead nowhere.
	{is: TypeClientError, texts: table(`
		*certificate verify failed*
		*certificate_verify_failed*
		*certificate problem*
		*certificate has expired*
		*certificate is not yet valid*
		*self-signed certificate*
		*self signed certificate*
		*unable to get local issuer*
		*unable to verify the first certificate*
		*x509: *
		*pkix path *
		*certificate signed by unknown authority*
		*certificate is not trusted*
		*server certificate verification failed*
		*invalid peer certificate*
		*certificate is invalid*
		*unknownissuer*
		*certexpired*
		*cert_has_expired*
		*hostname mismatch*
		*certificate subject name*
		*does not match target host name*
		*altname*
		*wrong version number*
		*wrong_version_number*
		*server gave http response to https client*
		*unsupported or unrecognized ssl message*
		*unknown protocol*
		*packet length too long*
		*record layer failure*
		*first record does not look like a tls handshake*
		*invalidcontenttype*
		*corrupt message of type*
		*cert authority*invalid*
		*peer certificate cannot be authenticated*
		*ssl certificate error*
		*server does not support ssl*
		*http_request*ssl*
		*an unexpected tls packet was received*
		*could not verify the ssl certificate*
		*certificate's owner does not match*
		*cannot verify *'s certificate*
		*unsafe legacy renegotiation*
		*no protocols available*
		*unsupported protocol*
		*handshake failure*
		*tlsv1 alert *
		*host key verification failed*
		*remote host identification has changed*
		*too many redirects*
		*maximum (*) redirects followed*
		*redirects exceeded*
		*exceeded * redirects*
		*stopped after * redirects*
		*redirect loop*
		*no matching host key type*
		*unable to negotiate with*
		*received http/0.9 when not allowed*
	`)},
	// Too many requests in some time, of this client or of the plan that it has.
	{is: TypeRateLimit, texts: table(`
		*rate limit exceeded
		*rate limit reached
		*rate-limit exceeded
		*exceed* rate limit
		*rate limited
		rate limiting
		*hit a rate limit
		*pull rate limit
		*too many requests
		*rate exceeded
		*request rate is large
		*reduce your request rate
		*slow down*requests
		*throttlingexception
		*being throttled
		*was throttled
		*request limit exceeded
		*secondary rate limit
		*exceeded your current quota
		*quota exceeded for *
		*quota exceeded. *
		*exhausted your daily quota
		*resource has been exhausted
		*too many * error responses*429
		*too many 429 error responses
		*usage limit reached*
		*-hour limit reached*
		*weekly limit reached*
		*you've hit your *limit*
		*you’ve hit your *limit*
		*out of extra usage*
		*retry limit exceeded: 429
		*limit exceeded: * requests
		*requests per minute
		*rate_limit_error
		quota exceeded
		rate limit
		we had to rate limit your ip
	`)},
	// A login, a key or a token is missing, wrong or too old, or does not allow this.
	{is: TypeAuth, texts: table(`
		*permission denied (publickey*
		*permission denied, please try again*
		*too many authentication failures*
		*authentication failed*
		*authentication required*
		*authorization required*
		*no pg_hba.conf entry*
		*access denied for user*
		*could not read username*
		*could not read password*
		*terminal prompts disabled*
		*invalid api key*
		*incorrect api key*
		*invalid x-api-key*
		*api key not valid*
		*api key not found*
		*api_key client option must be set*
		*no api key*
		*missing api key*
		*missing credentials*
		*unable to locate credentials*
		*no credentials*
		*could not find default credentials*
		*default credentials were not found*
		*credentials * expired*
		*token * expired*
		*token has been revoked*
		*bad credentials*
		*invalid credentials*
		*invalid username or password*
		*login required*
		*not logged in*
		*please run * login*
		*must be logged in*
		*unauthorized: *
		*noauth *
		*wrongpass *
		*user is not authorized*
		*is not authorized to perform*
		*forbidden: user *
		*requested access to the resource is denied*
		*gh auth login*
		*username/password authentication*
		*login failed*
		*login incorrect*
		*access denied. check*
	`)},
	// The service, or one behind it, fails, starts, or has too much to do.
	{is: TypeServerError, texts: table(`
		*internal server error
		*bad gateway
		*service unavailable
		*service temporarily unavailable
		*temporarily unavailable, please
		*gateway time-out
		*gateway timeout
		*overloaded_error
		*server is overloaded
		*currently overloaded
		*model is overloaded
		*server had an error
		*experiencing high demand
		*is at capacity
		*server is too busy
		*server returned 5xx
		*server returned 5xx server error reply
		*server is temporarily unable
		*the server was unable to return a response in the time allotted
		*the server is currently unable to handle the request
		*too many clients already
		*remaining connection slots are reserved
		*too many connections
		*the database system is starting up
		*the database system is shutting down
		*the database system is in recovery mode
		*the database system is not yet accepting connections
		*terminating connection due to *
		*max number of clients reached
		*redis is loading the dataset*
		*deadlock detected
		*deadlock found when trying to get lock
		*could not serialize access
		*please retry your request
		*temporary failure, please try again
		*temporarily rejected
		*service is unavailable
		*the service is currently unavailable
		*leader not available
		*not leader for partition
		*no leader*elected
		*etcdserver: request timed out
		*the server returned an invalid or incomplete response
		*etcdserver: leader changed
		*name node is in safe mode
		*clusterdown *
		*server shutting down
		*server shutdown in progress
		*tryagain *
		*greylisted
		*try again later
		server error
		*service not available, closing
		*unexpected response code 5*
		*vault is sealed
		no healthy upstream
		upstream connect error or disconnect/reset before headers
	`)},
	// Nothing came in time, from whichever layer.
	{is: TypeTimeout, texts: table(`
		connect timeout
		read timeout
		operation timeout
		request timeout
		*timed out
		error: timeout
		timed out waiting for *
		timeout was reached
		*: :timeout
		*, :timeout
		*(exit) time out
		error from server (timeout)
		timeout of * seconds was reached
		timeout awaiting response headers
		net/http: timeout
		i/o timeout
		tls handshake timeout
		context deadline exceeded
		client.timeout exceeded
		deadline exceeded
		deadline has elapsed
		deadline_exceeded
		operation too slow
		*canceling statement due to statement timeout
		*canceling statement due to lock timeout
		*lock wait timeout exceeded*
		timeout expired
		connection timeout
		connection timeout expired
		timeout of *ms exceeded
		socket timeout
		network timeout
		timeout while waiting
		*aborted due to timeout
		*httpclient.timeout of * elapsing
		execution expired
		idle timeout
		timeout: *no response
		timeout, server * not responding
		connection timed-out
		*timeout exceeded while *
		data timeout
		error in timeout *
		io timeout
		timeout in data send/receive
		headers timeout error
		body timeout error
		connect timeout error
		navigation timeout of *
		received timeout from *
		request timed-out
		*.lua:*: timeout
		upstream request timeout
		*query execution was interrupted, maximum statement execution time exceeded
		no servers could be reached
	`)},
	// What a server of PostgreSQL answers.
	{is: TypeClientError, texts: table(`
		*failed: fatal: *
		*error: fatal: *
	`)},
	// There is no name, no route or no connection, or it broke.
	{is: TypeNetwork, texts: table(`
		connection refused
		connect econnrefused
		connection reset
		connection was reset
		connection has been reset
		an existing connection was forcibly closed
		connection aborted
		connection broken
		connection was broken
		connection error
		*reset by peer
		stream was reset
		the stream was reset
		connection lost
		lost connection to *
		connection to * was lost
		connection was closed
		connection closed unexpectedly
		connection terminated
		connection unexpectedly closed
		connection prematurely closed
		connection interrupted
		the connection was *
		the connection to the server * was refused
		connection to * refused
		connection to * failed
		connection died
		connection shut down
		connection is closed
		connection closed
		connection closed before message completed
		server closed the connection
		server disconnected
		remote end closed connection
		remote host closed connection
		remote host terminated the handshake
		remote side unexpectedly closed *
		remote party *closed the *
		remote server closed *
		peer closed connection
		peer reset
		other side closed
		socket hang up
		socket closed
		socket is closed
		socket connection was closed
		the socket connection was closed
		broken pipe
		network is unreachable
		network unreachable
		network is down
		network error
		network connection was lost
		network is unavailable
		no route to host
		host is down
		host is unreachable
		host unreachable
		destination host unreachable
		could not resolve host
		couldn't resolve host
		could not resolve hostname
		could not resolve proxy
		couldn't resolve proxy
		could not resolve '*'
		could not resolve name
		unable to resolve host
		unable to resolve hostname
		failed to resolve
		cannot resolve host
		can't resolve '
		temporary failure in name resolution
		temporary failure resolving *
		name or service not known
		no address associated with hostname
		nodename nor servname provided
		non-recoverable failure in name resolution
		failed to lookup address information
		no such host
		no such host is known
		host not found
		unknown host
		unknown server host
		*, :nxdomain
		*, :econnrefused
		*: :econnrefused
		*: :closed
		server misbehaving
		dns error
		dns lookup failed
		dns resolution failed
		dns failure
		name resolution failed
		name resolution failure
		getaddrinfo failed
		getaddrinfo: *
		getaddrinfo e*
		could not translate host name
		unknown mysql server host
		address not available, dns
		resolve host failed
		couldn't connect to *
		can't connect to *
		cannot connect to *
		unable to connect
		failed to connect
		failed to establish a new connection
		failed to open tcp connection
		tcp connect error
		error connecting to *
		could not connect
		connect failed
		connection failed
		connection failure
		connecting to * failed
		error sending request for url
		error trying to connect
		client error (connect)
		couldn’t resolve the given hostname
		server returned nothing
		couldn't resolve host name
		error: aborted
		transferred a partial file
		end of file reached
		fatal error: max-retries exceeded
		empty reply from server
		empty response from server when *
		no data received
		recv failure
		send failure
		failure when receiving data
		failed sending data
		failed receiving *
		transfer closed with *
		end of file while reading data
		premature eof
		unexpected eof
		eof
		early eof
		unexpected end of file while reading *
		unexpected end of stream
		stream ended *before
		incomplete chunked *
		response ended prematurely
		premature close
		premature end of *body
		premature end of file from *
		incompleteread(*
		eof occurred in violation of protocol
		ssl_error_syscall
		ssl_read: *
		gnutls recv error
		gnutls_handshake() failed
		error in the pull function
		the tls connection was non-properly terminated
		tls connection was non-properly terminated
		http/1.1 header parser received no bytes
		rpc failed; curl *
		rpc failed; http 5*
		unexpected disconnect while reading sideband packet
		http/2 stream * was not closed cleanly
		http2 framing layer
		read econnreset
		write econnreset
		write epipe
		read etimedout
		connect etimedout
		connect ehostunreach
		connect enetunreach
		kex_exchange_identification: *
		ssh_exchange_identification: *
		client_loop: send disconnect
		packet_write_wait: *
		server unexpectedly closed *
		software caused connection abort
		transport endpoint is not connected
		transport is closing
		transport: error while dialing
		goaway
		http2: server sent goaway
		http2: client connection lost
		stream error: stream id *
		use of closed network connection
		error in socket io
		error in rsync protocol data stream
		curl error while *
		sendto: *unreachable
		no response from server
		stream has been aborted
		can't contact ldap server
		did not see server greeting
		no existing session
		error reading ssh protocol banner
		did not receive a valid http response
		no response received
		got no response
		server not responding
		all brokers *down
		broker transport failure
		no brokers available
		nobrokersavailable
		no keyserver available
		*.lua:*: closed
		host or service not provided, or not known
		connect(2) failed
		socket error
		a network error *
		couldn't reach *
		can't reach *
		all attempts to connect to *
		all mirrors were tried
		a network-related or instance-specific error *
		cannot reach *
		is the docker daemon running
		error during connect
		dial tcp *
		dial unix *
		read tcp *
		write tcp *
		the requested url could not be retrieved
		proxy connect aborted
		tunnel connection failed: 5*
		net::err_connection*
		net::err_name*
		net::err_internet*
		net::err_timed_out
		net::err_empty*
		net::err_network*
		proxy handshake *
		proxy tunnel *
	`)},
	// The ends of git, scp and fetch, whose reason mostly stands above: a login, or a repository that is not there.
	{is: TypeNetwork, weak: true, texts: table(`
		lost connection
		could not read from remote repository
		the remote end hung up unexpectedly
		unexplained error
		fetch failed
		failed to fetch
		http request failed
	`)},
	{is: TypeCommandFailed, texts: table(`
		no such file or directory
		is a directory
		not a directory
		syntax error
	`)},
	// A local file, since what a service denies has been found above.
	{is: TypePermission, texts: table(`
		permission denied
		operation not permitted
		read-only file system
	`)},
	// A lock that somebody else holds, or something that the machine has too little of.
	{is: TypeResource, texts: table(`
		*database is locked*
		*database table is locked*
		*database or disk is full*
		*index.lock': file exists*
		*unable to create '*.lock': file exists*
		*could not get lock *
		*is another process using it*
		*resource temporarily unavailable*
		*device or resource busy*
		*text file busy*
		*too many open files*
		*could not acquire lock*
		*unable to acquire the dpkg*
		*blocking waiting for file lock*
		*width or height exceeds limit*
		*cache resources exhausted*
		*oom command not allowed*
		*exceeds the memory limit*
		*memory limit exceeded*
		*out of shared memory*
		*no locks available*
		*error while writing output: no space*
		*state lock*
	`)},
}

// exhausted are phrases of a machine that has run out of something. They count before all else that a program says.
var exhausted = table(`
	no space left on device
	disk quota exceeded
	database or disk is full
	cannot allocate memory
	could not allocate memory
	heap out of memory
	java heap space
	out of memory
	memory exhausted
	too many open files
	not enough space
	write error: no space
`)

// notes are lines that are not about the failure, whatever they say.
var notes = table(`
	hint: *
	note: *
	notice: *
	info: *
	info *
	debug: *
	warning: *
	warn *
	warn: *
	npm warn *
	[warn*
	[info*
	[debug*
	w: *
	n: *
	line #: *
	wrn *
	inf *
	retrying*
	retry *
	* retrying *
	*will retry*
	attempt #*
	try # of *
`)

// surrenders are lines with which a loop of tries ends: why, each of them has said.
var surrenders = table(`
	giving up*
	gave up*
	error: giving up*
	all tries failed*
	all attempts failed*
	all retries failed*
	all # tries failed*
	all # attempts failed*
	all # retries failed*
	failed after # tries*
	failed after # attempts*
	failed after # retries*
	error: failed after # *
	too many retries*
	max retries reached*
	maximum retries reached*
	no more retries*
	retries exhausted*
	out of retries*
`)

// asides are lines that say nothing of the cause: what failed is above them. Among them are the queue of errors of
// OpenSSL, and what bash says below the name that it could not resolve.
var asides = table(`
	for more information*
	see * for *
	see '*
	see https*
	try '*
	try "*
` + "\ttry `*\n" + `
	curl: try *
	* --help*
	run '*
	use '*
	usage:*
	node.js v#*
	bun v#*
	npm err* a complete log *
	npm err* path *
	npm err* command *
	npm err* errno *
	npm err* syscall *
	npm err* type *
	npm err* lifecycle *
	npm err* cwd *
	npm err* workspace *
	npm err* location *
	aborting*
	aborted
	exiting*
	terminated
	failed
	failed.
	error
	error:
	error.
	fatal error
	done*
	make: *
	make[*
	gmake: *
	ninja: build stopped*
	exit status #*
	error: exit status #*
	error: process completed with exit code #*
	*exited with code #*
	*returned non-zero exit status #*
	*exit code #
	*exit code: #
	*exit code #.
	*exit status #
	*exit status: #
	command failed*
	script failed*
	please make sure *
	and the repository exists.
	the above exception was *
	during handling of the above exception*
	traceback (most recent call last):
	e: some index files failed to download*
	e: unable to fetch some archives*
	error: no matching distribution found *
	error: could not find a version that satisfies *
	caused by:
	caused by
	[error] to see the full stack*
	[error] re-run maven*
	[error] for more information*
	[error] [help*
	[error] after correcting*
	[error]
	* try:
	> run with *
	* get more help*
	build failed*
	* exception is:
	gzip: stdin: *
	tar: child returned *
	tar: error is not recoverable*
	tar: exiting with failure*
	(background on this error*
	execution halted
	emitted 'error' event on *
	lynx: can't access *
	rsync error: *
	errorcode:none
	content: *
	in addition: *
	if you are behind a proxy*
	stack traceback:
	stack trace:*
	stack backtrace:*
	native stack trace*
	did you specify the right host or port*
	is the server running*
	are you connected*
	check your internet connection*
	check your network*
	please check *
	killed
	terminated by *
	sudo: *
	more details*
	details: *
	request id*
	requestid*
	x-request-id*
	fatal: index-pack failed
	fatal: fetch-pack: *
	fetch-pack: *
	fatal: protocol error*
	fatal: clone of * failed*
	error: download failed
	fatal: the remote end hung up*
	#* files failed*
	total #*
	summary:*
	play recap*
	* ok=#*changed=#*
	* [--*
	probable causes:
	you can also run *
	an http error occurred when *
	http errors are often *
	tasks: top => *
	(see full trace by *
	in expression starting at *
	stacktrace:
	everything up-to-date
	the server responded with: *
	*:error:*:*:*:*:*.c:#:*
	connect:errno=#
	pgbench: error: could not create connection*
	*: /dev/tcp/*: invalid argument
	error: unable to select packages:
	time: *
	elapsed*
	finished in *
`)
